// SPDX-License-Identifier: BSD-3-Clause
// Lists of GPUs, of people, drivers and Slurm.
#include "libstep/core/devices.h"
#include "libstep/core/visible_gpus.h"
#include "tests/placement/support.h"

namespace dist_train {
namespace {

using Indices = std::vector<std::size_t>;

Machine four_gpus() {
  auto machine = own_machine("swapped nodes, no fabric");
  const char* uuids[] = {"GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"};
  for (std::size_t i = 0; i < 4; ++i)
    machine.gpus[i].uuid = uuids[i];
  return machine;
}

TEST(FindGpus, NumbersAddressesAndUuids) {
  auto machine = four_gpus();
  EXPECT_EQ(*find_gpus(machine, "3,0-1"), (Indices{3, 0, 1}));
  EXPECT_EQ(*find_gpus(machine, "0002:00:00.0,GPU-bb"), (Indices{1, 2}));
  EXPECT_EQ(*find_gpus(machine, "none"), Indices{});
  auto split = own_machine("partitions of one function");
  EXPECT_EQ(find_gpus(split, "0001:02:00.0")->size(), 6u);
  EXPECT_EQ(*find_gpus(split, "0001:02:00.0/2"), Indices{8});
}

TEST(FindGpus, WhatNamesNoneOrOneTwiceIsRefused) {
  auto machine = four_gpus();
  for (const char* list : {"", "4", "0,0", "0001:00:00.0,0", "GPU-aa", "GPU-dd", "0001:00:00.1",
                           "x", "1,", "0-99999999999", "0001:00:00.0/x"}) {
    auto gpus = find_gpus(machine, list);
    ASSERT_FALSE(gpus) << list;
    EXPECT_FALSE(gpus.error().message.empty());
  }
}

std::string seen(const Machine& machine, std::string_view list, const Indices& accessible) {
  std::string text;
  auto names = device_names("CUDA_VISIBLE_DEVICES", list);
  auto gpus = named_gpus(machine, names, accessible);
  for (std::size_t i = 0; i < names.size(); ++i)
    text += names[i] + "=" + (gpus[i] ? std::to_string(*gpus[i]) : "?") + " ";
  return text;
}

TEST(VisibleGpus, TokensStayWhatTheyAre) {
  auto machine = four_gpus();
  Indices all{0, 1, 2, 3};
  EXPECT_EQ(seen(machine, "2,0", all), "2=2 0=0 ");
  EXPECT_EQ(seen(machine, "GPU-cc,GPU-aa11", all), "GPU-cc=3 GPU-aa11=0 ");
  EXPECT_EQ(seen(machine, "GPU-aa", all), "GPU-aa=? "); // two begin so
  EXPECT_EQ(seen(machine, "1,-1,2", all), "1=1 ");      // the drivers stop there
  EXPECT_EQ(seen(machine, "7", all), "7=? ");
  EXPECT_EQ(seen(machine, "", all), "");
  EXPECT_EQ(seen(machine, "MIG-GPU-bb33/1/0", all), "MIG-GPU-bb33/1/0=2 ");
  EXPECT_EQ(seen(machine, "MIG-5f2d", all), "MIG-5f2d=? ");
}

// In a cgroup that admits GPUs 2 and 3, Slurm and the driver count from 0.
TEST(VisibleGpus, NumbersCountWhatTheCgroupAdmits) {
  auto machine = four_gpus();
  EXPECT_EQ(seen(machine, "0,1", {2, 3}), "0=2 1=3 ");
  EXPECT_EQ(seen(machine, "0", {3}), "0=3 ");
  EXPECT_EQ(seen(machine, "MIG-5f2d", {3}), "MIG-5f2d=3 ");
}

TEST(VisibleGpus, NumbersCountAsTheRuntimeDoes) {
  auto machine = four_gpus();
  for (std::uint32_t i = 0; i < 4; ++i)
    machine.gpus[i].order = i ^ 1;
  EXPECT_EQ(seen(machine, "0,3", {0, 1, 2, 3}), "0=1 3=2 ");
  EXPECT_EQ(seen(machine, "0,1", {0, 3}), "0=0 1=3 ");
  EXPECT_EQ(seen(machine, "0,1", {0, 1}), "0=1 1=0 ");
  machine.gpus[2].order.reset(); // not all of one kind
  EXPECT_EQ(seen(machine, "0,3", {0, 1, 2, 3}), "0=0 3=3 ");
}

} // namespace
} // namespace dist_train
