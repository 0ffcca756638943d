// SPDX-License-Identifier: BSD-3-Clause
// Real machines with right answers that others derived from the same files by their own means.
#include "libstep/core/placement.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace dist_train {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

struct Known {
  std::string file;
  Json answer;
  Machine machine;
};

// All machines that have answers; none where they are not there.
std::vector<Known> known_machines() {
  std::vector<Known> all;
  if (topologies().empty())
    return all;
  std::ifstream file(topologies() / "EXPECTED.json");
  const auto answers = Json::parse(file);
  for (const auto& [name, answer] : answers.items()) {
    auto machine = read_machine(topologies() / name);
    EXPECT_TRUE(machine) << machine.error().message;
    if (machine)
      all.push_back({name, answer, *machine});
  }
  return all;
}

const Json* answer_for(const Json& gpus, const Gpu& gpu) {
  for (const auto& answer : gpus)
    if (answer["pci"] == to_text(gpu.pci.address))
      return &answer;
  return nullptr;
}

const Json& first_known(const Json& answer) {
  for (const char* key : {"closest_active_fastest", "closest_active_rdma", "closest_slingshot"})
    if (!answer[key].is_null())
      return answer[key];
  return answer["closest_rdma"]; // states are not known
}

void check_machine(const Machine& machine, const Json& answer) {
  std::set<std::uint32_t> packages;
  for (const auto& core : machine.cores)
    packages.insert(core.package);
  EXPECT_EQ(packages.size(), answer["packages"]);
  EXPECT_EQ(machine.cores.size(), answer["cores"]);
  EXPECT_EQ(all_cpus(machine).size(), answer["pus"]);
  ASSERT_EQ(machine.numa_nodes.size(), answer["numa_nodes"].size());
  for (const auto& node : machine.numa_nodes) {
    auto id = std::to_string(node.id);
    EXPECT_EQ(id_set_text(node.cpus), answer["numa_nodes"][id].get<std::string>());
    bool ordinary = !node.cpus.empty() && !answer["numa_subtypes"].contains(id);
    EXPECT_EQ(node.memory == Memory::kDram, ordinary) << id;
  }
}

void check_nics(const Machine& machine, const Json& answer) {
  Names seen, wanted;
  for (const auto& nic : machine.nics) {
    auto text = to_text(nic.pci.address) + " " + nic.rdma;
    for (const auto& port : nic.ports)
      text += " " + std::to_string(port.number) + to_text(port.state);
    for (const auto& name : std::set(nic.interfaces.begin(), nic.interfaces.end()))
      text += " " + name;
    seen.insert(text);
  }
  for (const auto& nic : answer["nics"]) {
    auto text = nic["pci"].get<std::string>() + " ";
    for (const auto& rdma : nic["rdma"]) {
      text += rdma["name"].get<std::string>();
      for (const auto& [port, state] : rdma["ports"].items())
        text += " " + port + (state == "ACTIVE" ? "active" : "down");
    }
    for (const auto& name : nic["netdev"].get<Names>())
      text += " " + name;
    wanted.insert(text);
  }
  EXPECT_EQ(seen, wanted);
}

TEST(Expected, EveryMachineIsReadRight) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  for (const auto& [file, answer, machine] : known_machines()) {
    SCOPED_TRACE(file);
    check_machine(machine, answer);
    check_nics(machine, answer);
  }
}

TEST(Expected, EveryGpuHasItsNumaNodeItsCpusAndItsDistances) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  std::size_t gpus = 0, distances = 0;
  for (const auto& [file, answer, machine] : known_machines()) {
    SCOPED_TRACE(file);
    Names functions;
    for (const auto& gpu : machine.gpus) {
      functions.insert(to_text(gpu.pci.address));
      const auto* right = answer_for(answer["gpus"], gpu);
      ASSERT_TRUE(right) << to_text(gpu.pci.address);
      EXPECT_EQ(id_set_text(gpu.pci.numa), (*right)["numa"].get<std::string>());
      EXPECT_EQ(id_set_text(gpu.pci.cpus), (*right)["local_cpus"].get<std::string>());
      ++gpus;
      for (const auto& nic : machine.nics)
        for (const auto& name : nic.rdma.empty() ? nic.interfaces : std::vector{nic.rdma}) {
          auto wanted = (*right)["distance_to_each"].find(name);
          ASSERT_NE(wanted, (*right)["distance_to_each"].end()) << name;
          EXPECT_EQ(to_text(path_class(gpu.pci, nic.pci)), wanted->get<std::string>()) << name;
          ++distances;
        }
    }
    EXPECT_EQ(functions.size(), answer["gpus"].size());
  }
  std::printf("gpus=%zu distances=%zu\n", gpus, distances);
}

TEST(Expected, EveryTaskGetsTheNearestActiveNic) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  for (const auto& [file, answer, machine] : known_machines()) {
    SCOPED_TRACE(file);
    if (machine.gpus.empty())
      continue;
    auto plan =
        plan_placement(machine, all_gpus(machine, static_cast<std::uint32_t>(machine.gpus.size())));
    std::map<std::string, Names> users; // of each NIC
    for (const auto& task : plan.tasks) {
      const auto& gpu = machine.gpus[task.gpus.front()];
      SCOPED_TRACE(task.why);
      const auto& right = first_known(*answer_for(answer["gpus"], gpu));
      if (right.is_null()) {
        EXPECT_TRUE(task.nics.empty());
        continue;
      }
      ASSERT_FALSE(task.nics.empty());
      EXPECT_EQ(to_text(task.nic_class), right["distance"].get<std::string>());
      for (auto nic : task.nics) {
        EXPECT_TRUE(right["nics"].get<Names>().contains(nic_name(machine.nics[nic])));
        users[nic_name(machine.nics[nic])].insert(to_text(gpu.pci.address));
      }
    }
    for (const auto& group : answer["share_groups"])
      for (const auto& name : group["nics"]) {
        auto gpus = group["gpus"].get<Names>();
        const auto& using_it = users[name.get<std::string>()];
        auto count = std::count_if(using_it.begin(), using_it.end(),
                                   [&](const auto& gpu) { return gpus.contains(gpu); });
        EXPECT_LE(count, group["max_gpus_per_nic"].get<long>()) << name;
      }
  }
}

// The same node, seen by an hwloc with and without the vendors' libraries.
TEST(Expected, VendorLibrariesMakeNoDifference) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  std::size_t twins = 0;
  for (const auto& file : files_below(topologies() / "hwloc", "-nvml.xml")) {
    auto name = file.filename().string();
    auto twin = file.parent_path() / (name.substr(0, name.rfind("-nvml")) + "-nonvml.xml");
    if (name.ends_with("-nonvml.xml") || !std::filesystem::exists(twin))
      continue;
    auto with = read_machine(file), without = read_machine(twin);
    ASSERT_TRUE(with && without);
    for (std::uint32_t tasks = 1; tasks <= 2 * with->gpus.size(); ++tasks) {
      auto a = plan_placement(*with, all_gpus(*with, tasks));
      auto b = plan_placement(*without, all_gpus(*without, tasks));
      ASSERT_EQ(a.tasks.size(), b.tasks.size());
      EXPECT_EQ(a.ib_hca, b.ib_hca);
      EXPECT_EQ(a.warnings, b.warnings);
      for (std::size_t i = 0; i < a.tasks.size(); ++i) {
        EXPECT_EQ(a.tasks[i].cpus, b.tasks[i].cpus);
        EXPECT_EQ(a.tasks[i].why, b.tasks[i].why);
      }
    }
    ++twins;
  }
  EXPECT_GT(twins, 0u);
}

} // namespace
} // namespace dist_train
