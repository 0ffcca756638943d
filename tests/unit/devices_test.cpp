// SPDX-License-Identifier: BSD-3-Clause
// Visible-device lists as Slurm and drivers write them, and the device of each task.
#include "libstep/core/devices.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

using Names = std::vector<std::string>;

Names cuda(std::string_view list) { return device_names("CUDA_VISIBLE_DEVICES", list); }

// What Slurm writes into a task where gres.conf has no flags for the environment.
Environment all_vendors(const std::string& list, const char* on_node) {
  return {{"CUDA_VISIBLE_DEVICES", list}, {"ROCR_VISIBLE_DEVICES", list},
          {"GPU_DEVICE_ORDINAL", list},   {"ZE_AFFINITY_MASK", list},
          {"SLURM_STEP_GPUS", list},      {"SLURM_GPUS_ON_NODE", on_node}};
}

// JAX_LOCAL_DEVICE_IDS of each of the node's tasks.
Names jax_ids(const Environment& environment, std::uint32_t tasks, bool oversubscribe = false) {
  auto devices = task_devices(environment, tasks, GpuVendor::kUnknown);
  Names ids;
  for (std::uint32_t rank = 0; rank < tasks; ++rank)
    ids.push_back(jax_device_ids(devices, rank, tasks, oversubscribe));
  return ids;
}

// The expected lists are those of torch.cuda._parse_visible_devices (2.13), which the test of the
// real cluster asks again.
TEST(DeviceNames, CudaListsAreReadAsTorchReadsThem) {
  EXPECT_EQ(cuda("0,1,2"), (Names{"0", "1", "2"}));
  EXPECT_EQ(cuda("3, 1"), (Names{"3", "1"}));
  EXPECT_EQ(cuda(""), Names{});
  EXPECT_EQ(cuda("-1"), Names{});
  EXPECT_EQ(cuda("0,-1,1"), (Names{"0"}));
  EXPECT_EQ(cuda("0,,1"), (Names{"0"}));
  EXPECT_EQ(cuda("NoDevFiles"), Names{});
  EXPECT_EQ(cuda("1,0,1"), Names{});
  EXPECT_EQ(cuda("0,GPU-1d3a"), (Names{"0"}));
  EXPECT_EQ(cuda("GPU-1d3a,0"), (Names{"GPU-1d3a"}));
}

TEST(DeviceNames, UuidsShortUuidsAndMigInstancesStayAsTheyAre) {
  EXPECT_EQ(cuda("GPU-8b2d1c9e-3c0e-5a8f-9a52-0f2f5d2c7f11,GPU-1d3a"),
            (Names{"GPU-8b2d1c9e-3c0e-5a8f-9a52-0f2f5d2c7f11", "GPU-1d3a"}));
  const Names mig{"MIG-GPU-8b2d1c9e-3c0e-5a8f-9a52-0f2f5d2c7f11/1/0", "MIG-3a77"};
  EXPECT_EQ(cuda(mig[0] + ',' + mig[1]), mig);
  auto devices = task_devices({{"CUDA_VISIBLE_DEVICES", mig[0] + ',' + mig[1]}}, 2, {});
  EXPECT_EQ(own_device(devices, 1, false), 1u); // a position, whatever the name
}

TEST(DeviceNames, OtherVendorsMixKindsAndTiles) {
  EXPECT_EQ(device_names("ROCR_VISIBLE_DEVICES", "0,GPU-5a1f"), (Names{"0", "GPU-5a1f"}));
  EXPECT_EQ(device_names("ZE_AFFINITY_MASK", "0.0,0.1,1"), (Names{"0.0", "0.1", "1"}));
}

TEST(DeviceNames, AHostileListIsCutOff) {
  std::string list = "0";
  for (int i = 1; i < 20'000; ++i)
    list += ',' + std::to_string(i);
  EXPECT_EQ(cuda(list).size(), 1024u);
  EXPECT_EQ(cuda(std::string(100'000, ',')), Names{});
}

TEST(TaskDevices, OnlyTheVariablesOfTheNodesOwnVendorCount) {
  auto environment = all_vendors("0,1,2,3", "4");
  for (auto vendor : {GpuVendor::kUnknown, GpuVendor::kNvidia, GpuVendor::kAmd})
    EXPECT_EQ(task_devices(environment, 4, vendor).count, 4u);
  environment["CUDA_VISIBLE_DEVICES"] = "2,3";
  EXPECT_EQ(task_devices(environment, 4, GpuVendor::kNvidia).names, (Names{"2", "3"}));
  EXPECT_EQ(task_devices(environment, 4, GpuVendor::kAmd).count, 4u);
  environment["HIP_VISIBLE_DEVICES"] = "1"; // of those that ROCR leaves
  EXPECT_EQ(task_devices(environment, 4, GpuVendor::kAmd).names, Names{"1"});
  // A foreign vendor's list hides nothing.
  EXPECT_EQ(task_devices({{"ROCR_VISIBLE_DEVICES", "0"}, {"SLURM_GPUS_ON_NODE", "4"}}, 4,
                         GpuVendor::kNvidia)
                .count,
            4u);
}

TEST(TaskDevices, FewerThanTheStepHasOnTheNodeAreIsolation) {
  EXPECT_FALSE(task_devices(all_vendors("0,1", "2"), 2, {}).isolated);
  EXPECT_TRUE(task_devices(all_vendors("1", "2"), 2, {}).isolated);
  EXPECT_TRUE(task_devices(all_vendors("0,1", "4"), 2, {}).isolated); // --gpus-per-task=2
  // A task alone on its node, and several with one GPU between them.
  EXPECT_FALSE(task_devices(all_vendors("0", "1"), 1, {}).isolated);
  EXPECT_FALSE(task_devices(all_vendors("0", "1"), 4, {}).isolated);
}

TEST(TaskDevices, WhereSlurmNamesNoneItsCountHolds) {
  auto devices = task_devices({{"SLURM_GPUS_ON_NODE", "4"}}, 4, {}); // --gpu-bind=none
  EXPECT_EQ(devices.count, 4u);
  EXPECT_FALSE(devices.isolated);
  EXPECT_EQ(own_device(devices, 3, false), 3u);
  EXPECT_EQ(task_devices({}, 4, {}).count, 0u);
  EXPECT_EQ(task_devices({{"SLURM_GPUS_ON_NODE", "many"}}, 4, {}).count, 0u);
  // A list that names nothing is an answer.
  EXPECT_EQ(task_devices(all_vendors("NoDevFiles", "4"), 4, {}).count, 0u);
}

TEST(OwnDevice, IsEntryLocalRankAndModuloOnlyWhenAllowed) {
  auto devices = task_devices(all_vendors("0,1,2,3", "4"), 8, {});
  EXPECT_EQ(own_device(devices, 3, false), 3u);
  EXPECT_EQ(own_device(devices, 4, false), std::nullopt);
  EXPECT_EQ(own_device(devices, 4, true), 0u);
  EXPECT_EQ(own_device(devices, 7, true), 3u);
  EXPECT_EQ(own_device(task_devices({}, 8, {}), 0, true), std::nullopt);
}

TEST(JaxDeviceIds, EightTasksWithAGpuEach) {
  EXPECT_EQ(jax_ids(all_vendors("0,1,2,3,4,5,6,7", "8"), 8),
            (Names{"0", "1", "2", "3", "4", "5", "6", "7"}));
  // Whatever the GPUs are called: a job that got the last two of the node.
  EXPECT_EQ(jax_ids(all_vendors("6,7", "2"), 2), (Names{"0", "1"}));
}

TEST(JaxDeviceIds, IsZeroInEveryTaskThatSeesOneGpu) {
  EXPECT_EQ(jax_ids(all_vendors("3", "4"), 4), (Names{"0", "0", "0", "0"}));
  EXPECT_EQ(jax_ids(all_vendors("3", "1"), 1), (Names{"0"}));
}

TEST(JaxDeviceIds, ATaskAloneOnItsNodeOwnsAllGpus) {
  EXPECT_EQ(jax_ids(all_vendors("0,1,2,3,4,5,6,7", "8"), 1), (Names{"0,1,2,3,4,5,6,7"}));
  EXPECT_EQ(jax_ids({{"SLURM_GPUS_ON_NODE", "4"}}, 1), (Names{"0,1,2,3"}));
  EXPECT_EQ(jax_ids(all_vendors("0,1", "4"), 2), (Names{"0,1", "0,1"})); // --gpus-per-task=2
}

TEST(JaxDeviceIds, MoreTasksThanGpusShareOnlyWhenAllowed) {
  EXPECT_EQ(jax_ids(all_vendors("0,1", "2"), 4), (Names{"0", "1", "", ""}));
  EXPECT_EQ(jax_ids(all_vendors("0,1", "2"), 4, true), (Names{"0", "1", "0", "1"}));
  EXPECT_EQ(jax_ids({}, 2), (Names{"", ""}));
}

using Lists = std::vector<std::pair<std::string, std::string>>;

TEST(RearrangedLists, EveryVendorsListMovesAlikeAndNoneIsAdded) {
  auto environment = all_vendors("4,5,6,7", "4");
  auto devices = task_devices(environment, 4, GpuVendor::kNvidia);
  EXPECT_EQ(rearranged_lists(environment, devices, {2, 3, 0, 1}),
            (Lists{{"CUDA_VISIBLE_DEVICES", "6,7,4,5"},
                   {"ROCR_VISIBLE_DEVICES", "6,7,4,5"},
                   {"GPU_DEVICE_ORDINAL", "6,7,4,5"},
                   {"ZE_AFFINITY_MASK", "6,7,4,5"}}));
  EXPECT_EQ(rearranged_lists({{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}},
                             task_devices({{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}}, 2, {}),
                             {1, 0}),
            (Lists{{"CUDA_VISIBLE_DEVICES", "MIG-b,MIG-a"}}));
  // A list of other devices is none of ours.
  environment["ZE_AFFINITY_MASK"] = "0";
  EXPECT_EQ(rearranged_lists(environment, devices, {3}).size(), 3u);
}

TEST(RearrangedLists, HipCountsAnewInsideRocr) {
  Environment environment{{"ROCR_VISIBLE_DEVICES", "4,5,6,7"}, {"HIP_VISIBLE_DEVICES", "3,1"}};
  auto devices = task_devices(environment, 2, GpuVendor::kAmd);
  EXPECT_EQ(devices.names, (Names{"7", "5"}));
  EXPECT_EQ(rearranged_lists(environment, devices, {1, 0}),
            (Lists{{"ROCR_VISIBLE_DEVICES", "5,7"}, {"HIP_VISIBLE_DEVICES", "0,1"}}));
  environment.erase("ROCR_VISIBLE_DEVICES");
  devices = task_devices(environment, 2, GpuVendor::kAmd);
  EXPECT_EQ(rearranged_lists(environment, devices, {1, 0}),
            (Lists{{"HIP_VISIBLE_DEVICES", "1,3"}}));
}

TEST(SeenAt, OwnDevicesCountFromZero) {
  auto environment = all_vendors("4,5,6,7", "4");
  auto devices = seen_at(task_devices(environment, 2, {}), {2, 3});
  EXPECT_EQ(devices.names, (Names{"6", "7"}));
  EXPECT_TRUE(devices.isolated);
  EXPECT_EQ(jax_device_ids(devices, 1, 2, false), "0,1");
}

} // namespace
} // namespace dist_train
