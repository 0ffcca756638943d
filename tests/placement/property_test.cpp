// SPDX-License-Identifier: BSD-3-Clause
// What holds on every machine, for every number of tasks and every set of CPUs.
#include "libstep/core/machine_text.h"
#include "libstep/core/placement.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"

#include <algorithm>
#include <map>
#include <random>

namespace dist_train {
namespace {

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
    IdSet local; // empty where one of its GPUs does not say
    for (auto gpu : task.gpus)
      local = united(local, machine.gpus[gpu].pci.cpus);
    if (std::any_of(task.gpus.begin(), task.gpus.end(),
                    [&](auto gpu) { return machine.gpus[gpu].pci.cpus.empty(); }))
      local.clear();
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
  auto machines = all_machines();
  for (int i = 0; i < 60; ++i)
    machines.emplace_back("random machine " + std::to_string(i), random_machine(random));
  for (const auto& [name, machine] : machines) {
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
        ASSERT_FALSE(testing::Test::HasFailure()) << machine_text(machine);
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

// What a NIC can move, Mb/s; 0 if not known.
std::uint32_t rate_of(const Nic& nic) {
  std::uint32_t rate = 0;
  for (const auto& port : nic.ports)
    if (port.state != PortState::kDown)
      rate = std::max(rate, port.rate);
  return rate > 0 && nic.pci_rate > 0 ? std::min(rate, nic.pci_rate) : rate;
}

// NICs of the fabric that the plan chose, with their rates; virtual functions beside their physical
// one do not count.
std::map<std::size_t, std::uint32_t> candidates(const Machine& machine, const Placement& plan) {
  Fabric fabric = Fabric::kNone;
  for (const auto& task : plan.tasks)
    for (auto i : task.nics)
      fabric = fabric_of(machine.nics[i]);
  std::map<std::size_t, std::uint32_t> rates;
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const auto& nic = machine.nics[i];
    bool doubles = std::any_of(machine.nics.begin(), machine.nics.end(), [&](const Nic& other) {
      return nic.physical == other.pci.address && usable_port(other) != 0 &&
             fabric_of(other) != Fabric::kNone;
    });
    if (fabric_of(nic) == fabric && fabric != Fabric::kNone && usable_port(nic) != 0 && !doubles)
      rates[i] = rate_of(nic);
  }
  bool known = std::all_of(rates.begin(), rates.end(), [](const auto& r) { return r.second > 0; });
  std::uint32_t most = 0;
  for (const auto& [nic, rate] : rates)
    most = std::max(most, rate);
  std::erase_if(rates, [&](const auto& r) { return known && r.second < most; });
  return rates;
}

// Usable, fastest, nearest, fair; for machines with a GPU for each task.
void check_nics(const Machine& machine, const Placement& plan) {
  auto fast = candidates(machine, plan);
  std::map<std::vector<std::size_t>, std::map<std::size_t, std::size_t>> users; // by choice, NIC
  std::map<std::vector<std::size_t>, std::size_t> tasks;
  for (const auto& task : plan.tasks) {
    const auto& place = machine.gpus[task.gpus.front()].pci;
    std::vector<std::size_t> best;
    auto path = PathClass::kUnknown;
    for (const auto& [i, rate] : fast)
      path = std::min(path, path_class(place, machine.nics[i].pci));
    for (const auto& [i, rate] : fast)
      if (path_class(place, machine.nics[i].pci) == path)
        best.push_back(i);
    EXPECT_EQ(task.nics.empty(), best.empty()) << task.why;
    if (task.nics.empty())
      continue;
    EXPECT_EQ(task.nic_class, path) << task.why;
    ++tasks[best];
    for (auto i : task.nics) {
      EXPECT_TRUE(std::binary_search(best.begin(), best.end(), i)) << task.why;
      ++users[best][i];
    }
  }
  for (const auto& [best, counts] : users)
    for (const auto& [nic, count] : counts)
      EXPECT_LE(count, (tasks[best] + best.size() - 1) / best.size()) << machine.nics[nic].rdma;
}

TEST(Properties, NicsAreUsableThenFastestThenNearestThenFair) {
  std::mt19937 random(20260102);
  std::size_t tasks = 0;
  auto machines = all_machines();
  for (int i = 0; i < 1000; ++i)
    machines.emplace_back("random machine " + std::to_string(i), random_machine(random));
  for (const auto& [name, machine] : machines) {
    SCOPED_TRACE(name);
    if (machine.gpus.empty())
      continue;
    auto plan =
        plan_placement(machine, all_gpus(machine, static_cast<std::uint32_t>(machine.gpus.size())));
    check_nics(machine, plan);
    tasks += plan.tasks.size();
    ASSERT_FALSE(testing::Test::HasFailure()) << machine_text(machine);
  }
  std::printf("tasks=%zu\n", tasks);
}

// Names, and PCI domains as firmware numbers them, decide nothing.
TEST(Properties, NamesDecideNothing) {
  for (const auto& [name, machine] : all_machines()) {
    SCOPED_TRACE(name);
    auto other = machine;
    std::size_t number = other.nics.size() * 3;
    for (auto& nic : other.nics) {
      nic.pci.address.domain += 0x20;
      nic.rdma = nic.rdma.empty() ? "" : "hca" + std::to_string(--number);
      for (auto& interface : nic.interfaces)
        interface = "net" + std::to_string(--number);
    }
    for (auto& gpu : other.gpus) {
      gpu.pci.address.domain += 0x20;
      gpu.names = {"card" + std::to_string(++number)};
    }
    for (auto& node : other.numa_nodes)
      node.package += 5;
    for (auto& core : other.cores)
      core.package += 5;
    for (std::uint32_t tasks = 1; tasks <= 2 * machine.gpus.size(); ++tasks) {
      auto was = plan_placement(machine, all_gpus(machine, tasks)).tasks;
      auto is = plan_placement(other, all_gpus(other, tasks)).tasks;
      for (std::size_t i = 0; i < tasks; ++i) {
        EXPECT_EQ(is[i].gpus, was[i].gpus);
        EXPECT_EQ(is[i].cpus, was[i].cpus);
        EXPECT_EQ(is[i].memory, was[i].memory);
        EXPECT_EQ(is[i].nics, was[i].nics);
        EXPECT_EQ(is[i].nic_class, was[i].nic_class);
      }
    }
  }
}

// Buses numbered the other way round: the ranks change their GPUs, GPUs keep what is near them.
TEST(Properties, BusNumbersDecideOnlyTheOrder) {
  for (const auto& [name, machine] : all_machines()) {
    SCOPED_TRACE(name);
    auto other = machine;
    auto turn = [](PciAddress& address) {
      address.domain = 0xffff - address.domain;
      address.bus = static_cast<std::uint8_t>(0xff - address.bus);
    };
    for (auto& gpu : other.gpus)
      turn(gpu.pci.address);
    for (auto& nic : other.nics)
      turn(nic.pci.address);
    sort_devices(other);
    auto tasks = static_cast<std::uint32_t>(machine.gpus.size());
    std::map<std::pair<PciAddress, std::uint32_t>, TaskPlacement> was;
    for (const auto& task : plan_placement(machine, all_gpus(machine, tasks)).tasks) {
      const auto& gpu = machine.gpus[task.gpus.front()];
      auto address = gpu.pci.address;
      turn(address);
      was[{address, gpu.partition}] = task;
    }
    for (const auto& task : plan_placement(other, all_gpus(other, tasks)).tasks) {
      const auto& gpu = other.gpus[task.gpus.front()];
      const auto& before = was.at({gpu.pci.address, gpu.partition});
      EXPECT_EQ(task.numa, before.numa);
      EXPECT_EQ(task.nic_class, before.nic_class);
      EXPECT_EQ(task.nics.size(), before.nics.size());
      EXPECT_LE(std::max(task.cores, before.cores) - std::min(task.cores, before.cores), 1u);
    }
  }
}

} // namespace
} // namespace dist_train
