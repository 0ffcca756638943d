// SPDX-License-Identifier: BSD-3-Clause
// For the tests of identities: environments as the plugin, Slurm and torchrun make them, and what
// to expect of changed ones.
#pragma once

#include "libstep/identity.h"

#include <gtest/gtest.h>

namespace dist_train {

// Rank 4 of 6 on three nodes, as the plugin sets it.
inline Environment plugin() {
  return {{"DIST_TRAIN_VERSION", "1"},
          {"DIST_TRAIN_MODE", "torch"},
          {"DIST_TRAIN_STRATEGY", "fsdp"},
          {"DIST_TRAIN_STEP", "4711.3"},
          {"DIST_TRAIN_LAYOUT", "node01=0-3;node02=4;node03=5"},
          {"DIST_TRAIN_STORE", "10.0.0.1:23001"},
          {"DIST_TRAIN_TOKEN", "0123456789abcdef0123456789abcdef"},
          {"DIST_TRAIN_RESTART_COUNT", "1"},
          {"RANK", "4"},
          {"WORLD_SIZE", "6"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"NODE_RANK", "1"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "3"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "23000"}};
}

// Rank 5 of 6 on two uneven nodes, as slurmstepd sets it.
inline Environment slurm() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "3"},
          {"SLURM_PROCID", "5"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_NUM_TASKS", "6"},
          {"SLURM_STEP_NODELIST", "node[01-02]"},
          {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
          {"SLURM_GTIDS", "4,5"},
          {"SLURMD_NODENAME", "node02"}};
}

// Rank 3 of 4 on two nodes, as torchrun sets it.
inline Environment torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_RANK", "3"},
          {"ROLE_WORLD_SIZE", "4"},
          {"ROLE_NAME", "default"},
          {"MASTER_ADDR", "node01"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "abc"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

inline Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes)
    environment[name] = value;
  return environment;
}

inline Identity found(const Environment& environment) {
  auto identity = find_identity(environment, "host");
  EXPECT_TRUE(identity) << (identity ? "" : identity.error().message);
  return identity ? *identity : Identity{};
}

struct Contradiction {
  Environment base, changes;
  std::vector<std::string> names; // in the message
};

// That find_identity() refuses it and says why, in words for people.
inline void expect_named(const Contradiction& one) {
  const auto identity = find_identity(with(one.base, one.changes), "host");
  ASSERT_FALSE(identity) << one.names.front();
  for (const auto& name : one.names)
    EXPECT_NE(identity.error().message.find(name), std::string::npos)
        << "no " << name << " in: " << identity.error().message;
  EXPECT_LT(identity.error().message.size(), 500u);
  EXPECT_FALSE(identity.error().hint.empty()) << identity.error().message;
}

} // namespace dist_train
