// SPDX-License-Identifier: BSD-3-Clause
// A node's facts: the limits that the program will have, not those of the moment.
#include "spank/node_facts.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

namespace dist_train {
namespace {

SlurmFacts of_node(Environment environment) {
  SlurmFacts facts;
  facts.node_name = "node01";
  facts.node_ranks = {4, 5};
  facts.environment = std::move(environment);
  return facts;
}

NodeFacts gather(Environment environment) {
  auto devices = task_devices(environment, 2, GpuVendor::kUnknown);
  return gather_node_facts(of_node(std::move(environment)), devices, {0, 1, 2, 3}, 2);
}

TEST(NodeFacts, SayWhoTheNodeIsAndWhatATaskHas) {
  auto node = gather(
      {{"SLURM_CPUS_PER_TASK", "4"}, {"CUDA_VISIBLE_DEVICES", "1"}, {"SLURM_GPUS_ON_NODE", "2"}});
  EXPECT_EQ(node.node, "node01");
  EXPECT_EQ(node.local_ranks, 2u);
  EXPECT_EQ(node.task_cores, 2u);
  EXPECT_EQ(node.task_cpus, 4u);
  EXPECT_EQ(node.cpus_per_task, 4u);
  EXPECT_EQ(node.gpus, 1u);
  EXPECT_TRUE(node.gpus_isolated);
  EXPECT_FALSE(node.plugin_version.empty());
}

// After the hook slurmstepd sets the submitting shell's soft limits again.
TEST(NodeFacts, LimitsAreThoseOfTheProgram) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(gather({}).open_files, files.rlim_cur);
  EXPECT_EQ(gather({}).open_files_hard, files.rlim_max);
  EXPECT_EQ(gather({{"SLURM_RLIMIT_NOFILE", "17"}}).open_files, 17u);
  EXPECT_EQ(gather({{"SLURM_RLIMIT_NOFILE", "U17"}}).open_files, 17u); // srun --propagate=NOFILE
  EXPECT_EQ(gather({{"SLURM_RLIMIT_MEMLOCK", "4096"}}).locked_memory, 4096u);
  // More than the hard limit cannot be set, and nonsense is not.
  auto more = std::to_string(files.rlim_max + 1);
  if (files.rlim_max != RLIM_INFINITY) {
    EXPECT_EQ(gather({{"SLURM_RLIMIT_NOFILE", more}}).open_files, files.rlim_cur);
  }
  for (const char* nonsense : {"", "U", "-1", "many", "99999999999999999999999"})
    EXPECT_EQ(gather({{"SLURM_RLIMIT_NOFILE", nonsense}}).open_files, files.rlim_cur) << nonsense;
}

TEST(NodeFacts, HostileVariablesAreNothing) {
  auto node = gather({{"SLURM_CPUS_PER_TASK", "\xff"},
                      {"CUDA_VISIBLE_DEVICES", std::string(100'000, ',')},
                      {"SLURM_GPUS_ON_NODE", "-3"}});
  EXPECT_EQ(node.cpus_per_task, 0u);
  EXPECT_EQ(node.gpus, 0u);
  EXPECT_FALSE(node.gpus_isolated);
}

} // namespace
} // namespace dist_train
