// SPDX-License-Identifier: BSD-3-Clause
// Cores and memory of each task, condition by condition.
#include "libstep/core/placement.h"
#include "tests/placement/support.h"

#include <algorithm>

namespace dist_train {
namespace {

std::vector<std::string> cpus_of(const Placement& plan) {
  std::vector<std::string> texts;
  for (const auto& task : plan.tasks)
    texts.push_back(id_set_text(task.cpus));
  return texts;
}

bool has_warning(const Placement& plan, const std::string& part) {
  return std::any_of(plan.warnings.begin(), plan.warnings.end(),
                     [&](const std::string& text) { return text.find(part) != text.npos; });
}

using Texts = std::vector<std::string>;

TEST(Cores, SharedNodesAreCutIntoContiguousWholeCores) {
  auto machine = own_machine("pairs numbered backwards");
  auto plan = plan_placement(machine, all_gpus(machine, 8));
  EXPECT_EQ(cpus_of(plan), (Texts{"0-3,32-35", "4-7,36-39", "8-11,40-43", "12-15,44-47",
                                  "16-19,48-51", "20-23,52-55", "24-27,56-59", "28-31,60-63"}));
  EXPECT_EQ(plan.tasks[5].numa, IdSet{1});
  EXPECT_EQ(plan.tasks[5].memory, IdSet{1});
  EXPECT_EQ(plan.tasks[5].cores, 4u);
}

TEST(Cores, TwoGpusOfANodeTakeANodeWithoutGpuEach) {
  auto machine = own_machine("GPUs on odd nodes");
  auto plan = plan_placement(machine, all_gpus(machine, 8));
  EXPECT_EQ(cpus_of(plan),
            (Texts{"24-31", "16-23", "8-15", "0-7", "56-63", "48-55", "40-47", "32-39"}));
  EXPECT_EQ(plan.tasks[0].memory, IdSet{3});
  EXPECT_EQ(plan.tasks[1].numa, IdSet{3}); // of its GPU
  EXPECT_EQ(plan.tasks[1].memory, IdSet{2});
  EXPECT_NE(plan.tasks[1].why.find("without a GPU"), std::string::npos) << plan.tasks[1].why;
}

TEST(Cores, AGpuAloneOnItsNodeKeepsToIt) {
  auto machine = own_machine("near ports down");
  EXPECT_EQ(cpus_of(plan_placement(machine, all_gpus(machine, 4))),
            (Texts{"4-7,36-39", "8-11,40-43", "24-27,56-59", "28-31,60-63"}));
}

TEST(Cores, ACacheCanBeTheLocality) {
  auto machine = own_machine("cache-sized localities");
  auto plan = plan_placement(machine, all_gpus(machine, 8));
  // PCI order runs against the order of the cores here.
  EXPECT_EQ(cpus_of(plan).front(), "56-63,120-127");
  EXPECT_EQ(cpus_of(plan).back(), "0-7,64-71");
  EXPECT_EQ(plan.tasks.front().memory, IdSet{3});
}

TEST(Cores, NodeNumbersHaveGapsAndReservedCoresStayFree) {
  auto machine = own_machine("gaps and GPU memory");
  auto plan = plan_placement(machine, all_gpus(machine, 4));
  EXPECT_EQ(cpus_of(plan), (Texts{"4-19", "20-31", "36-51", "52-63"}));
  EXPECT_EQ(plan.tasks[0].memory, IdSet{0});
  EXPECT_EQ(plan.tasks[2].memory, IdSet{8});
}

TEST(Cores, FastMemoryIsNotPreferred) {
  auto machine = own_machine("two memories");
  auto plan = plan_placement(machine, all_gpus(machine, 4));
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(plan.tasks[i].memory, IdSet{i});
}

TEST(Cores, MemoryOfNodesThatAreNotAllowedIsNotPreferred) {
  auto machine = own_machine("swapped nodes, no fabric");
  machine.allowed_numa = {0, 2, 3};
  auto plan = plan_placement(machine, all_gpus(machine, 4));
  EXPECT_EQ(plan.tasks[0].numa, IdSet{1});
  EXPECT_TRUE(plan.tasks[0].memory.empty());
  EXPECT_EQ(plan.tasks[1].memory, IdSet{0});
}

TEST(Cores, NodesInAnotherOrderThanTheGpus) {
  auto machine = own_machine("swapped nodes, no fabric");
  EXPECT_EQ(cpus_of(plan_placement(machine, all_gpus(machine, 4))),
            (Texts{"6-11", "0-5", "18-23", "12-17"}));
}

TEST(Cores, CpusNumberedAlternately) {
  auto machine = own_machine("alternating CPUs");
  EXPECT_EQ(cpus_of(plan_placement(machine, all_gpus(machine, 3))),
            (Texts{"0,2,4,6,8,10,12,14,16,18,20,22", "1,3,5,13,15,17", "7,9,11,19,21,23"}));
}

TEST(Cores, CoresOfDifferentSizesAreWholeToo) {
  auto machine = own_machine("unlike cores");
  EXPECT_EQ(cpus_of(plan_placement(machine, all_gpus(machine, 2))),
            (Texts{"0-9", "10-11,13,15-16"}));
}

TEST(Cores, MoreTasksThanCoresShareThoseNextToThem) {
  auto machine = own_machine("more GPUs than cores");
  auto plan = plan_placement(machine, all_gpus(machine, 16));
  EXPECT_EQ(cpus_of(plan)[0], "0-1");
  EXPECT_EQ(cpus_of(plan)[15], "2-3");
  EXPECT_TRUE(plan.tasks[0].shared);
  EXPECT_NE(plan.tasks.back().why.find("shared with other tasks"), std::string::npos);
  for (const auto& [name, value] : task_variables(plan.tasks[0]))
    EXPECT_NE(name, "OMP_NUM_THREADS") << value;
}

TEST(Cores, TooFewNextToTheGpusBorrowFromTheOtherPackage) {
  auto machine = own_machine("pairs numbered backwards");
  auto request = all_gpus(machine, 8);
  request.cpus = *parse_id_set("0,16-31");
  auto plan = plan_placement(machine, request);
  EXPECT_EQ(plan.tasks[0].cpus.front(), 0u);
  EXPECT_EQ(plan.tasks[0].cores, 3u);
  EXPECT_EQ(plan.tasks[7].cores, 2u);
  EXPECT_TRUE(has_warning(plan, "is left next to gpu")) << plan.warnings.size();
  EXPECT_NE(plan.tasks[1].why.find("farther"), std::string::npos);
  EXPECT_EQ(plan.tasks[7].why.find("farther"), std::string::npos);
}

TEST(Cores, CpusNowhereNearTheGpuAreNeverLeftEmpty) {
  auto machine = own_machine("all on one package");
  auto request = all_gpus(machine, 2);
  request.cpus = *parse_id_set("9-17");
  EXPECT_EQ(cpus_of(plan_placement(machine, request)), (Texts{"9-13", "14-17"}));
}

TEST(Cores, CpusTheDescriptionLacksAreStillTheSteps) {
  auto machine = own_machine("no devices");
  auto request = all_gpus(machine, 2);
  request.cpus = {100, 101, 102};
  EXPECT_EQ(cpus_of(plan_placement(machine, request)), (Texts{"100-101", "102"}));
}

TEST(Cores, UnknownLocalityIsNotNodeZero) {
  auto machine = own_machine("half unknown");
  auto plan = plan_placement(machine, all_gpus(machine, 4));
  EXPECT_EQ(cpus_of(plan), (Texts{"0-3", "4-7", "8-11", "12-15"}));
  EXPECT_TRUE(plan.tasks[3].numa.empty());
  EXPECT_EQ(plan.tasks[3].nic_class, PathClass::kUnknown);
  EXPECT_TRUE(has_warning(plan, "2 of 4 GPUs report no NUMA node"));
}

TEST(Cores, SeveralGpusOfATaskAreABlock) {
  auto machine = own_machine("pairs numbered backwards");
  auto plan = plan_placement(machine, all_gpus(machine, 2));
  EXPECT_EQ(plan.tasks[1].gpus, (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(cpus_of(plan), (Texts{"0-15,32-47", "16-31,48-63"}));
  plan = plan_placement(machine, all_gpus(machine, 1));
  EXPECT_EQ(plan.tasks[0].gpus.size(), 8u);
  EXPECT_EQ(cpus_of(plan), Texts{"0-63"});
  EXPECT_TRUE(plan.tasks[0].memory.empty());
}

TEST(Cores, MoreTasksThanGpusGoRound) {
  auto machine = own_machine("all on one package");
  auto plan = plan_placement(machine, all_gpus(machine, 3));
  EXPECT_EQ(plan.tasks[2].gpus, std::vector<std::size_t>{0});
  EXPECT_EQ(cpus_of(plan), (Texts{"0-2,18-20", "3-5,21-23", "6-8,24-26"}));
}

TEST(Cores, WithoutGpusTheCoresAreSharedOut) {
  auto machine = own_machine("no devices");
  auto plan = plan_placement(machine, all_gpus(machine, 3));
  EXPECT_EQ(cpus_of(plan), (Texts{"0-1", "2", "3"}));
  EXPECT_TRUE(placement_variables(plan).empty());
  EXPECT_EQ(plan.tasks[0].why, "no GPU; 2 cores; no fabric NIC");
}

TEST(Cores, OtherBindings) {
  auto machine = own_machine("swapped nodes, no fabric");
  auto request = all_gpus(machine, 4);
  request.binding = Binding::kCore;
  EXPECT_EQ(cpus_of(plan_placement(machine, request)), (Texts{"0-5", "6-11", "12-17", "18-23"}));
  request.binding = Binding::kNuma;
  request.cpus = *parse_id_set("0-3,8-23");
  EXPECT_EQ(cpus_of(plan_placement(machine, request)), (Texts{"8-11", "0-3", "18-23", "12-17"}));
  request.binding = Binding::kNone;
  EXPECT_EQ(cpus_of(plan_placement(machine, request)), (Texts{"", "", "", ""}));
}

TEST(Cores, ThreadsLeaveRoomForOthers) {
  EXPECT_EQ(omp_threads(0, true), 1u);
  EXPECT_EQ(omp_threads(1, true), 1u);
  EXPECT_EQ(omp_threads(3, true), 3u);
  EXPECT_EQ(omp_threads(4, true), 3u);
  EXPECT_EQ(omp_threads(16, true), 14u);
}

} // namespace
} // namespace dist_train
