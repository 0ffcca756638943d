// SPDX-License-Identifier: BSD-3-Clause
// What a task gets where Slurm or the user has decided something already.
#include "libstep/core/task_share.h"
#include "tests/placement/support.h"

namespace dist_train {
namespace {

using Texts = std::vector<std::string>;
using Positions = std::vector<std::size_t>;

// Two nodes of four cores; the GPUs' order is not that of the nodes.
Machine machine() {
  return machine_from(regular_cpus(2, 1, 4, 1) +
                      "gpu 0000:10:00.0 id=10de:2330 host=1 numa=1 cpus=4-7\n"
                      "gpu 0000:20:00.0 id=10de:2330 host=2 numa=0 cpus=0-3\n"
                      "nic 0000:11:00.0 id=15b3:1021 class=0207 host=1 numa=1 cpus=4-7 rdma=mlx5_0 "
                      "port=1:active:infiniband:400000\n"
                      "nic 0000:21:00.0 id=15b3:1021 class=0207 host=2 numa=0 cpus=0-3 rdma=mlx5_1 "
                      "port=1:active:infiniband:400000\n");
}

IdSet cpus(const char* text) { return *parse_id_set(text); }

// A task of two that Slurm did not bind, on a node of its own, with both GPUs.
TaskView unbound(std::uint32_t local_rank) {
  TaskView view;
  view.local_rank = local_rank;
  view.local_tasks = 2;
  view.mask = view.reach = cpus("0-7");
  view.whole_node = true;
  view.memory = {0, 1};
  view.gpus = {0, 1};
  view.gpus_movable = true;
  return view;
}

// One of the two tasks that Slurm has bound to a node each.
TaskView bound(std::uint32_t local_rank) {
  auto view = unbound(local_rank);
  view.masks = {cpus("0-3"), cpus("4-7")};
  view.mask = view.masks[local_rank];
  return view;
}

std::string value_of(const TaskShare& share, const std::string& name) {
  for (const auto& [known, value] : share.variables)
    if (known == name)
      return value;
  return "(unset)";
}

TEST(Share, AnUnboundTaskGetsTheCoresMemoryAndNicNextToItsGpu) {
  auto share = share_of_task(machine(), unbound(0));
  EXPECT_EQ(id_set_text(share.cpus), "4-7");
  EXPECT_EQ(share.memory, IdSet{1});
  EXPECT_EQ(share.cores, 4u);
  EXPECT_TRUE(share.devices.empty());
  EXPECT_EQ(share.cells.gpu, "0000:10:00.0");
  EXPECT_EQ(share.cells.numa, "1");
  EXPECT_EQ(share.cells.cores, "4-7");
  EXPECT_EQ(share.cells.nic, "mlx5_0:1");
  EXPECT_EQ(share.cells.nic_class, "PHB");
  EXPECT_EQ(value_of(share, "UCX_NET_DEVICES"), "mlx5_0:1");
  EXPECT_EQ(value_of(share, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(value_of(share, "NCCL_IB_HCA"), "(unset)");     // nothing has to be left out
  EXPECT_EQ(value_of(share, "OMP_NUM_THREADS"), "(unset)"); // follows from share.cores
  EXPECT_TRUE(share.warnings.empty());
  EXPECT_EQ(share_of_task(machine(), unbound(1)).cells.cores, "0-3");
}

TEST(Share, WhereSlurmBoundTheMaskStaysAndTheNearestGpuMovesToLocalRank) {
  for (std::uint32_t rank : {0, 1}) {
    auto share = share_of_task(machine(), bound(rank));
    EXPECT_TRUE(share.cpus.empty());
    EXPECT_TRUE(share.memory.empty());
    EXPECT_EQ(share.devices, (Positions{1, 0})) << "the same in both tasks";
    EXPECT_EQ(share.cells.gpu, rank == 0 ? "0000:20:00.0" : "0000:10:00.0");
    EXPECT_EQ(share.cells.cores, rank == 0 ? "0-3 kept" : "4-7 kept");
    EXPECT_EQ(share.cells.nic, rank == 0 ? "mlx5_1:1" : "mlx5_0:1");
    EXPECT_TRUE(share.warnings.empty());
  }
}

TEST(Share, MasksThatAreNotKnownOrGpusOfTheUsersOrderMoveNothing) {
  auto view = bound(0);
  view.masks.clear();
  EXPECT_TRUE(share_of_task(machine(), view).devices.empty());
  view = bound(0);
  view.gpus_movable = false;
  auto share = share_of_task(machine(), view);
  EXPECT_TRUE(share.devices.empty());
  EXPECT_EQ(share.cells.gpu, "0000:10:00.0");
  ASSERT_EQ(share.warnings.size(), 1u);
  EXPECT_NE(share.warnings[0].find("2 of 2 tasks are bound to CPUs that are not next to their GPU"),
            std::string::npos);
}

TEST(Share, BindGpuWidensInsideAFenceOrOnANodeOfItsOwnOnly) {
  auto view = bound(0);
  view.bind = BindRule::kGpu;
  EXPECT_EQ(share_of_task(machine(), view).cells.cores, "4-7");
  view.whole_node = false; // the others' CPUs are in reach
  EXPECT_EQ(share_of_task(machine(), view).cells.cores, "0-3");
  view.reach = cpus("0-1,4-5"); // a cgroup's
  view.mask = cpus("0-1");
  EXPECT_EQ(share_of_task(machine(), view).cells.cores, "4-5");
  view.bind = BindRule::kCore;
  EXPECT_EQ(share_of_task(machine(), view).cells.cores, "0-1 kept");
}

TEST(Share, KeepChoosesAllButTheMask) {
  auto view = unbound(1);
  view.bind = BindRule::kKeep;
  auto share = share_of_task(machine(), view);
  EXPECT_TRUE(share.cpus.empty());
  EXPECT_EQ(share.cells.cores, "0-7 kept");
  EXPECT_EQ(share.cells.gpu, "0000:20:00.0");
  EXPECT_EQ(value_of(share, "UCX_NET_DEVICES"), "mlx5_1:1");
}

TEST(Share, AnIsolatedTaskSharesTheNodeOfItsGpu) {
  auto view = unbound(1);
  view.gpus = {0};
  view.gpus_isolated = true;
  auto share = share_of_task(machine(), view);
  EXPECT_EQ(share.cells.cores, "4-7");
  EXPECT_EQ(share.cells.gpu, "0000:10:00.0");
  EXPECT_TRUE(share.devices.empty());
  EXPECT_EQ(value_of(share, "UCX_NET_DEVICES"), "mlx5_0:1");
}

TEST(Share, OwnGpusAreTheOnlyOnesToSee) {
  auto view = unbound(1);
  view.gpu_rule = GpuRule::kOwn;
  EXPECT_EQ(share_of_task(machine(), view).devices, Positions{1});
  view.local_tasks = 1;
  view.local_rank = 0;
  EXPECT_TRUE(share_of_task(machine(), view).devices.empty()); // all are its own
}

// Frameworks take the GPU at the position LOCAL_RANK, whatever number of them a task has.
TEST(Share, OfSeveralGpusATaskTheFirstIsAtLocalRank) {
  auto four = machine_from(regular_cpus(2, 1, 4, 1) +
                           "gpu 0000:10:00.0 id=10de:2330 host=1 numa=0 cpus=0-3\n"
                           "gpu 0000:20:00.0 id=10de:2330 host=2 numa=0 cpus=0-3\n"
                           "gpu 0000:30:00.0 id=10de:2330 host=3 numa=1 cpus=4-7\n"
                           "gpu 0000:40:00.0 id=10de:2330 host=4 numa=1 cpus=4-7\n");
  auto view = unbound(1);
  view.gpus = {0, 1, 2, 3};
  auto share = share_of_task(four, view);
  EXPECT_EQ(share.devices, (Positions{0, 2, 1, 3}));
  EXPECT_EQ(share.cells.gpu, "0000:30:00.0,0000:40:00.0");
  EXPECT_EQ(share.cells.cores, "4-7");
  view.gpu_rule = GpuRule::kOwn;
  EXPECT_EQ(share_of_task(four, view).devices, (Positions{2, 3}));
}

TEST(Share, WhatIsNotKnownStaysUnknown) {
  auto view = unbound(0);
  view.gpus = {std::nullopt, std::nullopt};
  auto share = share_of_task(machine(), view);
  EXPECT_EQ(share.cells.gpu, "-");
  EXPECT_TRUE(share.devices.empty());
  EXPECT_EQ(share.cores, 4u);
  EXPECT_EQ(value_of(share, "CUDA_DEVICE_ORDER"), "(unset)");
  view.memory.clear(); // bound by the user
  EXPECT_TRUE(share_of_task(machine(), view).memory.empty());
}

TEST(Share, NicsThatTheListBarsAreLeftOutOnAllTasks) {
  auto view = unbound(0);
  view.barred_nics = barred_nics(machine(), "^mlx5_0");
  auto share = share_of_task(machine(), view);
  EXPECT_EQ(share.cells.nic, "mlx5_1:1");
  EXPECT_EQ(value_of(share, "NCCL_IB_HCA"), "=mlx5_1:1");
  EXPECT_EQ(value_of(share_of_task(machine(), unbound(1)), "NCCL_IB_HCA"), "(unset)");
  view.barred_nics = barred_nics(machine(), "none");
  share = share_of_task(machine(), view);
  EXPECT_EQ(share.cells.nic, "-");
  EXPECT_EQ(value_of(share, "NCCL_IB_HCA"), "(unset)");
  EXPECT_EQ(value_of(share, "UCX_NET_DEVICES"), "(unset)");
}

TEST(Nics, ListsBarByNameAndBeginning) {
  auto barred = [](const char* list) { return barred_nics(machine(), list); };
  EXPECT_EQ(barred("auto"), Positions{});
  EXPECT_EQ(barred("none"), (Positions{0, 1}));
  EXPECT_EQ(barred("mlx5_1"), Positions{0});
  EXPECT_EQ(barred("mlx5_"), Positions{});
  EXPECT_EQ(barred("mlx5_+^mlx5_1"), Positions{1});
  EXPECT_EQ(barred("^mlx4"), Positions{});
  EXPECT_EQ(barred("hfi1"), (Positions{0, 1}));
}

TEST(Masks, AreReadAsSlurmWritesThem) {
  auto masks = [](const char* type, const std::string& list, std::uint32_t tasks = 1) {
    Texts texts;
    for (const auto& mask :
         bound_masks({{"SLURM_CPU_BIND_TYPE", type}, {"SLURM_CPU_BIND_LIST", list}}, tasks))
      texts.push_back(id_set_text(mask));
    return texts;
  };
  EXPECT_EQ(masks("mask_cpu:", "0x3,0xC0", 2), (Texts{"0-1", "6-7"}));
  EXPECT_EQ(masks("mask_cpu:", "0x10000000000000001"), Texts{"0,64"});
  EXPECT_EQ(masks("mask_cpu:", "0x1,0x2", 3), (Texts{"0", "1", "0"})); // in turns
  EXPECT_EQ(masks("mask_cpu:", "ff"), Texts{"0-7"});
  for (const char* bad : {"", "0x", "0xg", "0x3,", "0x0", "3;4"})
    EXPECT_EQ(masks("mask_cpu:", bad), Texts{}) << bad;
  EXPECT_EQ(masks("mask_cpu:", std::string(100'000, 'f')), Texts{});
  EXPECT_EQ(masks("none", "0x3"), Texts{});
  EXPECT_TRUE(bound_masks({}, 2).empty());
}

} // namespace
} // namespace dist_train
