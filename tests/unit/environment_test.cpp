// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/environment.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TaskPlan rank_five() {
  TaskPlan plan;
  plan.id = {4711, 2, 1};
  plan.rank = 5;
  plan.world_size = 6;
  plan.local_rank = 0;
  plan.local_world_size = 1;
  plan.node_rank = 2;
  plan.node_count = 3;
  plan.layout = "n1=0-3;n2=4;n3=5";
  plan.master_address = "10.0.0.1";
  plan.ports = {23001, 23002, 23003};
  plan.token = "00112233445566778899aabbccddeeff";
  plan.interface = "eth0";
  plan.threads = 4;
  plan.jax_devices = "0,1";
  return plan;
}

// The environment after the changes.
Environment changed(const TaskPlan& plan, const Options& options, Environment environment) {
  for (const auto& change : task_environment(plan, options, environment).changes) {
    if (change.value)
      environment[change.name] = *change.value;
    else
      environment.erase(change.name);
  }
  return environment;
}

TEST(TaskEnvironment, IsTheWholeContract) {
  Options options;
  options.strategy = Strategy::kFsdp;
  Environment expected{
      {"RANK", "5"},
      {"WORLD_SIZE", "6"},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"NODE_RANK", "2"},
      {"GROUP_RANK", "2"},
      {"GROUP_WORLD_SIZE", "3"},
      {"ROLE_RANK", "5"},
      {"ROLE_WORLD_SIZE", "6"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "23001"},
      {"JAX_COORDINATOR_ADDRESS", "10.0.0.1:23003"},
      {"JAX_COORDINATOR_PORT", "23003"},
      {"JAX_NUM_PROCESSES", "6"},
      {"JAX_PROCESS_ID", "5"},
      {"JAX_LOCAL_DEVICE_IDS", "0,1"},
      {"OMP_NUM_THREADS", "4"},
      {"GLOO_SOCKET_IFNAME", "eth0"},
      {"TP_SOCKET_IFNAME", "eth0"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"DIST_TRAIN_VERSION", "1"},
      {"DIST_TRAIN_MODE", "torch"},
      {"DIST_TRAIN_STRATEGY", "fsdp"},
      {"DIST_TRAIN_STEP", "4711.2"},
      {"DIST_TRAIN_LAYOUT", "n1=0-3;n2=4;n3=5"},
      {"DIST_TRAIN_STORE", "10.0.0.1:23002"},
      {"DIST_TRAIN_TOKEN", "00112233445566778899aabbccddeeff"},
      {"DIST_TRAIN_RESTART_COUNT", "1"},
      {"DIST_TRAIN_DEFAULTS", "MASTER_ADDR=10.0.0.1;MASTER_PORT=23001;JAX_LOCAL_DEVICE_IDS=0,1;"
                              "OMP_NUM_THREADS=4;GLOO_SOCKET_IFNAME=eth0;TP_SOCKET_IFNAME=eth0;"
                              "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"},
  };
  EXPECT_EQ(changed(rank_five(), options, {}), expected);
}

TEST(TaskEnvironment, RemovesWhatOtherLaunchersAndOuterStepsLeft) {
  Environment before{{"TORCHELASTIC_RUN_ID", "x"},
                     {"PET_NNODES", "2"},
                     {"DIST_TRAIN_STORE_FD", "7"},
                     {"DIST_TRAIN_STRATEGY", "ddp"},
                     {"SLURM_DIST_TRAIN_TOKEN", "y"},
                     {"RANK", "99"},
                     {"DIST_TRAIN_LIBSTEP", "mine"},
                     {"SLURM_DIST_TRAIN", "on"},
                     {"PETROL", "stays"}};
  auto after = changed(rank_five(), {}, before);
  EXPECT_EQ(after["DIST_TRAIN_LIBSTEP"], "mine");
  for (const char* gone : {"TORCHELASTIC_RUN_ID", "PET_NNODES", "DIST_TRAIN_STORE_FD",
                           "DIST_TRAIN_STRATEGY", "SLURM_DIST_TRAIN_TOKEN"})
    EXPECT_FALSE(after.contains(gone)) << gone;
  EXPECT_EQ(after["RANK"], "5");
  EXPECT_EQ(after["PETROL"], "stays");
  EXPECT_EQ(after["SLURM_DIST_TRAIN"], "on");
}

TEST(TaskEnvironment, MasterIsOursWithANoticeOrKept) {
  Environment before{{"MASTER_ADDR", "old"}, {"MASTER_PORT", "23001"}};
  auto plan = task_environment(rank_five(), {}, before);
  ASSERT_EQ(plan.notices.size(), 1u); // the port is the same
  EXPECT_EQ(plan.notices[0], "MASTER_ADDR is 10.0.0.1, not your 'old' (env=keep keeps yours)");
  Options keep;
  keep.env = EnvRule::kKeep;
  EXPECT_TRUE(task_environment(rank_five(), keep, before).notices.empty());
  EXPECT_EQ(changed(rank_five(), keep, before)["MASTER_ADDR"], "old");
  EXPECT_EQ(changed(rank_five(), keep, {})["MASTER_ADDR"], "10.0.0.1");
}

TEST(TaskEnvironment, VerboseTellsTheEndpointThatIsKept) {
  auto options = *parse_options("env=keep,verbose");
  auto plan =
      task_environment(rank_five(), options, {{"MASTER_ADDR", "1.2.3.4"}, {"MASTER_PORT", "999"}});
  ASSERT_EQ(plan.notices.size(), 1u);
  EXPECT_EQ(plan.notices[0], "kept yours: MASTER_ADDR='1.2.3.4', MASTER_PORT='999'");
}

TEST(TaskEnvironment, ALoopbackMasterOfSeveralNodesIsNotKept) {
  Options keep;
  keep.env = EnvRule::kKeep;
  for (const char* loopback : {"localhost", "127.0.0.1", "::1"}) {
    auto plan = task_environment(rank_five(), keep, {{"MASTER_ADDR", loopback}});
    ASSERT_EQ(plan.notices.size(), 1u);
    EXPECT_NE(plan.notices[0].find("no other node would find rank 0 there"), std::string::npos);
    EXPECT_EQ(changed(rank_five(), keep, {{"MASTER_ADDR", loopback}})["MASTER_ADDR"], "10.0.0.1");
  }
  auto alone = rank_five();
  alone.node_count = 1;
  EXPECT_EQ(changed(alone, keep, {{"MASTER_ADDR", "localhost"}})["MASTER_ADDR"], "localhost");
}

TEST(TaskEnvironment, WhatAnOuterStepChoseIsNobodysWish) {
  auto outer = rank_five();
  outer.master_address = "10.0.0.9";
  outer.interface = "ib0";
  outer.threads = 32;
  outer.jax_devices = "7";
  auto before = changed(outer, {}, {});
  Options keep;
  keep.env = EnvRule::kKeep;
  EXPECT_TRUE(task_environment(rank_five(), {}, before).notices.empty());
  EXPECT_EQ(changed(rank_five(), keep, before), changed(rank_five(), keep, {}));

  // What the user said before the outer step, or inside it, still is.
  before = changed(outer, {}, {{"OMP_NUM_THREADS", "9"}});
  before["GLOO_SOCKET_IFNAME"] = "eth7";
  auto after = changed(rank_five(), {}, before);
  EXPECT_EQ(after["OMP_NUM_THREADS"], "9");
  EXPECT_EQ(after["GLOO_SOCKET_IFNAME"], "eth7");
  EXPECT_EQ(after["TP_SOCKET_IFNAME"], "eth0");
}

TEST(TaskEnvironment, ThreadsAndInterfacesOfTheUserStay) {
  Environment before{{"OMP_NUM_THREADS", "9"}, {"GLOO_SOCKET_IFNAME", "ib0"}};
  auto after = changed(rank_five(), {}, before);
  EXPECT_EQ(after["OMP_NUM_THREADS"], "9");
  EXPECT_EQ(after["GLOO_SOCKET_IFNAME"], "ib0");
  EXPECT_EQ(after["TP_SOCKET_IFNAME"], "eth0");
  Options fixed;
  fixed.omp = OmpRule{OmpRule::kFixed, 2};
  EXPECT_EQ(changed(rank_five(), fixed, before)["OMP_NUM_THREADS"], "2");
  Options keep;
  keep.omp = OmpRule{OmpRule::kKeep, 0};
  EXPECT_FALSE(changed(rank_five(), keep, {}).contains("OMP_NUM_THREADS"));
}

TEST(TaskEnvironment, JaxDevicesOfTheUserStay) {
  EXPECT_EQ(changed(rank_five(), {}, {{"JAX_LOCAL_DEVICE_IDS", "3"}})["JAX_LOCAL_DEVICE_IDS"], "3");
  auto without = rank_five();
  without.jax_devices = "";
  EXPECT_FALSE(changed(without, {}, {}).contains("JAX_LOCAL_DEVICE_IDS"));
}

TEST(TaskEnvironment, RankZeroGetsDescriptorsAndHugeLayoutsAreLeftOut) {
  auto plan = rank_five();
  plan.store_fd = 100;
  plan.port_fd = 101;
  plan.ports = {23001, 23002, 0, 23004, 5};
  plan.layout.assign(100'001, 'x');
  auto after = changed(plan, {}, {});
  EXPECT_EQ(after["DIST_TRAIN_STORE_FD"], "100");
  EXPECT_EQ(after["DIST_TRAIN_PORT_FD"], "101");
  EXPECT_EQ(after["DIST_TRAIN_PORTS"], "23004-23008");
  EXPECT_FALSE(after.contains("DIST_TRAIN_LAYOUT"));
  EXPECT_FALSE(after.contains("JAX_COORDINATOR_ADDRESS"));
  EXPECT_FALSE(after.contains("DIST_TRAIN_JAX_FD"));
  plan.ports.jax = 23003;
  plan.jax_fd = 102;
  after = changed(plan, {}, {});
  EXPECT_EQ(after["JAX_COORDINATOR_PORT"], "23003");
  EXPECT_EQ(after["DIST_TRAIN_JAX_FD"], "102");
}

TEST(TaskEnvironment, IPv6StoreIsBracketed) {
  auto plan = rank_five();
  plan.master_address = "fd00::1";
  auto after = changed(plan, {}, {});
  EXPECT_EQ(after["MASTER_ADDR"], "fd00::1");
  EXPECT_EQ(after["DIST_TRAIN_STORE"], "[fd00::1]:23002");
}

TEST(TaskEnvironment, PlacementFillsWhatTheUserAndNcclsFilesLeave) {
  auto plan = rank_five();
  plan.nccl_interfaces = "=eth0";
  plan.devices = {{"CUDA_VISIBLE_DEVICES", "1,0"}};
  plan.defaults = {{"NCCL_IB_HCA", "=mlx5_0:1"}, {"UCX_NET_DEVICES", "mlx5_0:1"}};
  plan.gpus = "0000:10:00.0";
  plan.nics = "mlx5_0:1";
  plan.configured = {"NCCL_IB_HCA"};
  auto options = *parse_options("verbose");
  const Environment users{{"UCX_NET_DEVICES", "mine:1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
  auto environment = changed(plan, options, users);
  EXPECT_FALSE(environment.contains("NCCL_IB_HCA"));
  EXPECT_EQ(environment["UCX_NET_DEVICES"], "mine:1");
  EXPECT_EQ(environment["NCCL_SOCKET_IFNAME"], "=eth0");
  EXPECT_EQ(environment["CUDA_VISIBLE_DEVICES"], "1,0");
  EXPECT_EQ(environment["DIST_TRAIN_GPU"], "0000:10:00.0");
  EXPECT_FALSE(environment.contains("DIST_TRAIN_NUMA"));
  EXPECT_EQ(environment["DIST_TRAIN_NIC"], "mlx5_0:1");
  auto notices = task_environment(plan, options, users).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0], "kept yours: NCCL_IB_HCA (nccl.conf), UCX_NET_DEVICES");
  EXPECT_TRUE(task_environment(plan, {}, users).notices.empty());
}

} // namespace
} // namespace dist_train
