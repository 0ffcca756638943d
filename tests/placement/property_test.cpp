// SPDX-License-Identifier: BSD-3-Clause
// What holds on every machine, for every number of tasks and every set of CPUs.
#include "libstep/core/placement.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"

#include <algorithm>
#include <map>
#include <random>
#include <sys/resource.h>

namespace dist_train {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 20;
#else
constexpr double kSlowdown = 1;
#endif

// Of this process and the children it waited for, so that a busy machine does not count.
double cpu_milliseconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const auto& time : {usage.ru_utime, usage.ru_stime})
      sum += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  }
  return sum;
}

std::vector<std::pair<std::string, Machine>> all_machines() {
  std::vector<std::pair<std::string, Machine>> machines;
  for (const auto& [name, text] : own_machines())
    machines.emplace_back(name, machine_from(text));
  if (topologies().empty())
    return machines;
  for (const char* folder : {"hwloc", "hwloc-derived"})
    for (const auto& file : files_below(topologies() / folder, ".xml"))
      if (auto machine = read_machine(file))
        machines.emplace_back(file.filename(), *machine);
  return machines;
}

std::size_t core_count(const Machine& machine, const IdSet& cpus) {
  return static_cast<std::size_t>(
      std::count_if(machine.cores.begin(), machine.cores.end(),
                    [&](const Core& core) { return !intersection(core.cpus, cpus).empty(); }));
}

void check_slices(const Machine& machine, const PlacementRequest& request, const Placement& plan) {
  ASSERT_EQ(plan.tasks.size(), request.tasks);
  bool suffice = core_count(machine, request.cpus) >= request.tasks;
  IdSet taken;
  std::map<std::pair<IdSet, bool>, std::pair<std::size_t, std::size_t>> counts; // by locality
  for (const auto& task : plan.tasks) {
    ASSERT_FALSE(task.cpus.empty());
    EXPECT_EQ(intersection(task.cpus, request.cpus), task.cpus) << "outside";
    EXPECT_EQ(task.cores, core_count(machine, task.cpus));
    EXPECT_FALSE(task.why.empty());
    if (suffice) {
      EXPECT_FALSE(task.shared);
      EXPECT_TRUE(intersection(taken, task.cpus).empty()) << "not disjoint";
      for (const auto& core : machine.cores) {
        auto allowed = intersection(core.cpus, request.cpus);
        auto mine = intersection(core.cpus, task.cpus);
        EXPECT_TRUE(mine.empty() || mine == allowed) << "a core is split";
      }
    }
    taken = united(taken, task.cpus);
    IdSet local;
    for (auto gpu : task.gpus)
      local = united(local, machine.gpus[gpu].pci.cpus);
    auto [entry, first] = counts.try_emplace({local, task.shared}, task.cores, task.cores);
    entry->second.first = std::min<std::size_t>(entry->second.first, task.cores);
    entry->second.second = std::max<std::size_t>(entry->second.second, task.cores);
    for (auto node : task.memory)
      for (const auto& numa : machine.numa_nodes)
        EXPECT_TRUE(numa.id != node || numa.memory == Memory::kDram);
  }
  for (const auto& [local, range] : counts)
    EXPECT_LE(range.second - range.first, 1u) << "unfair";
}

TEST(Properties, SlicesAreDisjointInsideFairAndNeverEmpty) {
  std::mt19937 random(20260101);
  std::size_t plans = 0;
  for (const auto& [name, machine] : all_machines()) {
    SCOPED_TRACE(name);
    auto cpus = all_cpus(machine);
    auto most = std::max<std::size_t>(2, 2 * machine.gpus.size());
    for (std::uint32_t tasks = 1; tasks <= most; ++tasks)
      for (int round = 0; round < 8; ++round) {
        auto request = all_gpus(machine, tasks);
        auto share = std::uniform_real_distribution(0.0, 1.0)(random);
        for (auto cpu : cpus) // a scattered set, a block, or all
          if (round == 0 ||
              (round % 2 == 0 ? std::bernoulli_distribution(share)(random)
                              : static_cast<double>(cpu * (round + 1u) / 2 % cpus.size()) <
                                    share * static_cast<double>(cpus.size())))
            request.cpus.push_back(cpu);
        if (request.cpus.empty())
          request.cpus.push_back(cpus[random() % cpus.size()]);
        if (round > 4 && !request.gpus.empty()) { // some of the GPUs, in any order
          std::shuffle(request.gpus.begin(), request.gpus.end(), random);
          request.gpus.resize(1 + random() % request.gpus.size());
        }
        SCOPED_TRACE(std::to_string(tasks) + " tasks on " + id_set_text(request.cpus));
        check_slices(machine, request, plan_placement(machine, request));
        ++plans;
        if (testing::Test::HasFailure())
          return;
      }
  }
  std::printf("plans=%zu\n", plans);
}

// A task without any allowed core next to it borrows; one that has some keeps to them.
TEST(Properties, TasksWithEnoughCoresNextToThemUseNoOthers) {
  for (const auto& [name, machine] : all_machines()) {
    SCOPED_TRACE(name);
    if (machine.gpus.empty())
      continue;
    auto request = all_gpus(machine, static_cast<std::uint32_t>(machine.gpus.size()));
    std::map<IdSet, std::size_t> tasks;
    for (const auto& gpu : machine.gpus)
      ++tasks[gpu.pci.cpus];
    bool enough = std::all_of(tasks.begin(), tasks.end(), [&](const auto& entry) {
      return core_count(machine, entry.first) >= entry.second;
    });
    for (const auto& task : plan_placement(machine, request).tasks) {
      const auto& gpu = machine.gpus[task.gpus.front()];
      if (enough && tasks[gpu.pci.cpus] == 1) {
        EXPECT_EQ(intersection(task.cpus, gpu.pci.cpus), task.cpus) << task.why;
      }
    }
  }
}

// 256 CPUs, 8 GPUs, 10 NICs: well within a millisecond.
TEST(Properties, PlanningIsQuick) {
  auto machine = machine_from(regular_cpus(2, 4, 16, 2));
  for (unsigned i = 0; i < 10; ++i) {
    PciPlace place{{0, static_cast<std::uint8_t>(i * 16), 0, 0}, i % 8, {}, {}, {i % 8}};
    place.cpus = machine.numa_nodes[i % 8].cpus;
    if (i < 8)
      machine.gpus.push_back({place, 0x10de, 0x2330, 0, 1, {}, {}, {}});
    machine.nics.push_back({place,
                            0x0207,
                            0x15b3,
                            0x1021,
                            0,
                            "mlx5_" + std::to_string(i),
                            {},
                            {{1, PortState::kActive, LinkLayer::kInfiniband, 400000}}});
  }
  ASSERT_EQ(all_cpus(machine).size(), 256u);
  auto request = all_gpus(machine, 8);
  double best = 1e9;
  for (int i = 0; i < 50; ++i) {
    auto begin = cpu_milliseconds();
    auto plan = plan_placement(machine, request);
    best = std::min(best, cpu_milliseconds() - begin);
    ASSERT_EQ(plan.tasks.size(), 8u);
  }
  std::printf("plan_ms=%.3f\n", best);
  EXPECT_LE(best, 1.0 * kSlowdown);
}

TEST(Properties, LoadingIsQuick) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  double slowest = 0;
  std::string which;
  for (const char* folder : {"hwloc", "hwloc-derived"})
    for (const auto& file : files_below(topologies() / folder, ".xml")) {
      double best = 1e9;
      for (int i = 0; i < 5; ++i) {
        auto begin = cpu_milliseconds();
        ASSERT_TRUE(read_machine(file));
        best = std::min(best, cpu_milliseconds() - begin);
      }
      if (best > slowest)
        which = file.filename();
      slowest = std::max(slowest, best);
    }
  std::printf("load_ms=%.2f (%s)\n", slowest, which.c_str());
  EXPECT_LE(slowest, 15.0 * kSlowdown) << which;
}

} // namespace
} // namespace dist_train
