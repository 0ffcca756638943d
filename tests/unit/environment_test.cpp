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
  plan.cores = 4;
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
  outer.cores = 32;
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

// One task a node: the second of three.
TaskPlan second_node() {
  auto plan = rank_five();
  plan.rank = plan.node_rank = 1;
  plan.world_size = plan.node_count = 3;
  plan.layout = "n1=0;n2=1;n3=2";
  plan.cores = 16;
  plan.gpu_count = 4;
  return plan;
}

const Environment kStaleRank{{"RANK", "9"},
                             {"WORLD_SIZE", "99"},
                             {"LOCAL_RANK", "9"},
                             {"ROLE_RANK", "9"},
                             {"JAX_PROCESS_ID", "9"}};

TEST(TaskEnvironment, TorchrunGetsItsStaticArgumentsAndNoRank) {
  const auto options = *parse_options("torchrun,fsdp");
  auto after = changed(second_node(), options, kStaleRank);
  for (const auto& [name, value] : kStaleRank)
    EXPECT_FALSE(after.contains(name)) << name;
  const Environment expected{{"PET_NNODES", "3"},
                             {"PET_NODE_RANK", "1"},
                             {"PET_NPROC_PER_NODE", "4"},
                             {"PET_MASTER_ADDR", "10.0.0.1"},
                             {"PET_MASTER_PORT", "23001"},
                             {"PET_RDZV_BACKEND", "static"},
                             {"PET_RDZV_ID", "4711.2"},
                             {"NODE_RANK", "1"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "23001"},
                             {"OMP_NUM_THREADS", "3"}, // 16 cores, 4 workers, NCCL's thread
                             {"DIST_TRAIN_MODE", "torchrun"},
                             {"DIST_TRAIN_STRATEGY", "fsdp"}};
  for (const auto& [name, value] : expected)
    EXPECT_EQ(after[name], value) << name;

  auto without_gpus = second_node();
  without_gpus.gpu_count = 0;
  after = changed(without_gpus, options, {});
  EXPECT_EQ(after["PET_NPROC_PER_NODE"], "16");
  EXPECT_EQ(after["OMP_NUM_THREADS"], "1");
  after = changed(without_gpus, *parse_options("torchrun,nproc=2"), {{"PET_NPROC_PER_NODE", "5"}});
  EXPECT_EQ(after["PET_NPROC_PER_NODE"], "2");
  EXPECT_EQ(after["OMP_NUM_THREADS"], "8");
  without_gpus.cores = 0;
  EXPECT_EQ(changed(without_gpus, options, {})["PET_NPROC_PER_NODE"], "1");
}

TEST(TaskEnvironment, WhatTheUserToldTorchrunStaysUnlessItContradictsTheStep) {
  const Environment users{{"PET_MAX_RESTARTS", "3"}, {"PET_NPROC_PER_NODE", "2"},
                          {"PET_NNODES", "8"},       {"PET_MASTER_PORT", "29500"},
                          {"PET_STANDALONE", "1"},   {"TORCHELASTIC_RUN_ID", "x"}};
  const auto options = *parse_options("torchrun");
  auto after = changed(second_node(), options, users);
  EXPECT_EQ(after["PET_MAX_RESTARTS"], "3");
  EXPECT_EQ(after["PET_NPROC_PER_NODE"], "2");
  EXPECT_EQ(after["PET_NNODES"], "3");
  EXPECT_EQ(after["PET_MASTER_PORT"], "23001");
  EXPECT_FALSE(after.contains("PET_STANDALONE"));
  EXPECT_FALSE(after.contains("TORCHELASTIC_RUN_ID"));
  EXPECT_EQ(task_environment(second_node(), options, users).notices,
            (std::vector<std::string>{
                "PET_NNODES is 3, not your '8' (env=keep keeps yours)",
                "PET_MASTER_PORT is 23001, not your '29500' (env=keep keeps yours)",
                "your PET_STANDALONE='1' is removed: torchrun would not meet at MASTER_ADDR "
                "(env=keep keeps it)"}));

  const auto keep = *parse_options("torchrun,env=keep");
  after = changed(second_node(), keep, users);
  EXPECT_EQ(after["PET_NNODES"], "8");
  EXPECT_EQ(after["PET_STANDALONE"], "1");
  EXPECT_EQ(changed(second_node(), keep, {{"PET_NODE_RANK", "0"}})["PET_NODE_RANK"], "1");
  EXPECT_TRUE(task_environment(second_node(), keep, users).notices.empty());

  // torchrun meets where MASTER_* say.
  after = changed(second_node(), keep, {{"MASTER_ADDR", "mine"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(after["PET_MASTER_ADDR"], "mine");
  EXPECT_EQ(after["PET_MASTER_PORT"], "29500");

  // An outer step's are nobody's wish.
  auto inner = second_node();
  inner.id.step = 7;
  inner.gpu_count = 1;
  auto before = changed(second_node(), options, {});
  EXPECT_EQ(changed(inner, options, before), changed(inner, options, {}));
  EXPECT_EQ(changed(rank_five(), {}, before), changed(rank_five(), {}, {}));
}

TEST(TaskEnvironment, RayGetsItsHeadAndNothingOfARank) {
  const auto options = *parse_options("ray");
  auto after = changed(second_node(), options, kStaleRank);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR",
                           "MASTER_PORT", "JAX_PROCESS_ID", "OMP_NUM_THREADS", "PET_NNODES"})
    EXPECT_FALSE(after.contains(name)) << name;
  EXPECT_EQ(after["DIST_TRAIN_RAY_ADDRESS"], "10.0.0.1:23001");
  EXPECT_EQ(after["DIST_TRAIN_RAY_NODES"], "3");
  EXPECT_EQ(after["DIST_TRAIN_RAY_CPUS"], "16");
  EXPECT_EQ(after["GLOO_SOCKET_IFNAME"], "eth0");
  EXPECT_EQ(changed(second_node(), *parse_options("ray,omp=2"), {})["OMP_NUM_THREADS"], "2");
  EXPECT_TRUE(task_environment(second_node(), options, {}).notices.empty());
  EXPECT_EQ(
      changed(second_node(), options, {{"ROCR_VISIBLE_DEVICES", "3,1"}})["HIP_VISIBLE_DEVICES"],
      "0,1");
  EXPECT_FALSE(after.contains("HIP_VISIBLE_DEVICES"));
  auto among_workers = second_node();
  among_workers.ports.master = 12001;
  auto notices = task_environment(among_workers, options, {}).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].find("the head's port 12001 is one of Ray's worker ports (10002-19999)"),
            0u);
}

TEST(TaskEnvironment, LightningCountsTheTasksOfTheStep) {
  const auto options = *parse_options("lightning");
  EXPECT_EQ(
      changed(rank_five(), options, {{"SLURM_NTASKS_PER_NODE", "4"}})["SLURM_NTASKS_PER_NODE"],
      "1");
  EXPECT_EQ(changed(rank_five(), {}, {{"SLURM_NTASKS_PER_NODE", "4"}})["SLURM_NTASKS_PER_NODE"],
            "4");
}

TEST(TaskEnvironment, DeepspeedIsToldAsByItsLauncherAndOfNoMpirun) {
  const auto options = *parse_options("deepspeed");
  const Environment before{{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_MCA_x", "y"}};
  auto after = changed(rank_five(), options, before);
  EXPECT_EQ(after["CROSS_RANK"], "2");
  EXPECT_EQ(after["CROSS_SIZE"], "3");
  EXPECT_EQ(after["LOCAL_SIZE"], "1");
  EXPECT_FALSE(after.contains("OMPI_COMM_WORLD_LOCAL_RANK"));
  EXPECT_TRUE(after.contains("OMPI_MCA_x"));
  EXPECT_EQ(task_environment(rank_five(), options, before).notices,
            std::vector<std::string>{"OMPI_COMM_WORLD_LOCAL_RANK of an mpirun around srun is "
                                     "removed: DeepSpeed would take it for this step's"});
  auto notices =
      task_environment(rank_five(), options, {{"CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2"}}).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].find("Slurm names the GPUs by UUID"), 0u);
  EXPECT_TRUE(changed(rank_five(), {}, before).contains("OMPI_COMM_WORLD_LOCAL_RANK"));
}

} // namespace
} // namespace dist_train
