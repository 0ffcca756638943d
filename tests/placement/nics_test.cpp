// SPDX-License-Identifier: BSD-3-Clause
// The NIC of each task, and NCCL's list for the node, condition by condition.
#include "libstep/core/placement.h"
#include "tests/placement/support.h"

#include <algorithm>
#include <map>

namespace dist_train {
namespace {

using Texts = std::vector<std::string>;

// "mlx5_0+mlx5_1 PIX" for each task.
Texts nics_of(const Machine& machine, const Placement& plan) {
  Texts texts;
  for (const auto& task : plan.tasks) {
    std::string text;
    for (auto i : task.nics)
      text += (text.empty() ? "" : "+") + nic_name(machine.nics[i]);
    texts.push_back(text + (text.empty() ? "" : std::string(" ") + to_text(task.nic_class)));
  }
  return texts;
}

Placement plan_all(const Machine& machine) {
  return plan_placement(machine,
                        all_gpus(machine, std::max<std::uint32_t>(
                                              1, static_cast<std::uint32_t>(machine.gpus.size()))));
}

Texts nics_on(const std::string& name) {
  auto machine = own_machine(name);
  return nics_of(machine, plan_all(machine));
}

std::string hcas_on(const std::string& name) { return plan_all(own_machine(name)).ib_hca; }

TEST(Nics, TheirNumbersSayNothing) {
  EXPECT_EQ(nics_on("pairs numbered backwards"),
            (Texts{"mlx5_7 PIX", "mlx5_6 PIX", "mlx5_5 PIX", "mlx5_4 PIX", "mlx5_3 PIX",
                   "mlx5_2 PIX", "mlx5_1 PIX", "mlx5_0 PIX"}));
  EXPECT_EQ(hcas_on("pairs numbered backwards"), ""); // nothing to leave out
}

TEST(Nics, DownPortsAreNotUsedAndFarOnesAreShared) {
  auto machine = own_machine("near ports down");
  auto plan = plan_all(machine);
  EXPECT_EQ(nics_of(machine, plan),
            (Texts{"mlx5_2 SYS", "mlx5_3 SYS", "mlx5_2 PXB", "mlx5_3 PXB"}));
  EXPECT_EQ(plan.ib_hca, ""); // NCCL takes active ports only
  ASSERT_EQ(plan.warnings.size(), 2u);
  EXPECT_EQ(plan.warnings[0], "mlx5_0 port 1 is DOWN; gpu 0000:16:00.0 uses mlx5_2:1 (SYS)");
  EXPECT_EQ(plan.tasks[0].ucx_device, "mlx5_2:1");
}

TEST(Nics, NetworkFunctionsOfAFabricCount) {
  auto nics = nics_on("cache-sized localities");
  EXPECT_EQ(nics, (Texts{"hsn3 PHB", "hsn3 NODE", "hsn2 PHB", "hsn2 NODE", "hsn1 PHB", "hsn1 NODE",
                         "hsn0 PHB", "hsn0 NODE"}));
  EXPECT_EQ(hcas_on("cache-sized localities"), "");
  EXPECT_EQ(plan_all(own_machine("cache-sized localities")).tasks[0].ucx_device, "");
}

TEST(Nics, PartitionsOfAFunctionShareItsNic) {
  auto nics = nics_on("partitions of one function");
  ASSERT_EQ(nics.size(), 24u);
  EXPECT_EQ(nics[5], "hsn0 PHB");
  EXPECT_EQ(nics[6], "hsn1 PHB");
  auto machine = own_machine("partitions of one function");
  auto plan = plan_placement(machine, all_gpus(machine, 4));
  EXPECT_EQ(plan.tasks[1].gpus.front(), 6u);
}

TEST(Nics, HostBridgesOfOneNode) {
  EXPECT_EQ(nics_on("gaps and GPU memory"),
            (Texts{"mlx5_0 NODE", "mlx5_1 NODE", "mlx5_2 NODE", "mlx5_3 NODE"}));
}

TEST(Nics, OneForAllAndNeverASlowEthernetPort) {
  EXPECT_EQ(nics_on("all on one package"), (Texts{"mlx5_0 PIX", "mlx5_0 PIX"}));
  EXPECT_EQ(plan_all(own_machine("all on one package")).tasks[0].ucx_device, "");
}

TEST(Nics, AFarAdapterIsBetterThanANearSlowPort) {
  EXPECT_EQ(nics_on("far adapter"), (Texts{"mlx5_0 SYS", "mlx5_0 SYS", "mlx5_0 SYS"}));
}

TEST(Nics, FourGpusOfSixteenShareTheNicOfTheirSwitch) {
  auto machine = own_machine("sixteen GPUs");
  auto plan = plan_all(machine);
  std::map<std::string, int> users;
  for (const auto& text : nics_of(machine, plan))
    ++users[text];
  EXPECT_EQ(users,
            (std::map<std::string, int>{
                {"mlx5_6 PXB", 4}, {"mlx5_7 PXB", 4}, {"mlx5_8 PXB", 4}, {"mlx5_9 PXB", 4}}));
  for (const auto& task : plan.tasks)
    EXPECT_EQ(task.cores, 3u);
}

TEST(Nics, CloudAdaptersWantNoVariables) {
  EXPECT_EQ(nics_on("cloud adapter"),
            (Texts{"rdmap197s0 SYS", "rdmap197s0 SYS", "rdmap197s0 NODE", "rdmap197s0 NODE"}));
  auto plan = plan_all(own_machine("cloud adapter"));
  EXPECT_EQ(plan.ib_hca, "");
  EXPECT_EQ(plan.tasks[0].ucx_device, "");
}

TEST(Nics, FabricsAreNotMixed) {
  EXPECT_EQ(nics_on("two fabrics"), (Texts{"mlx5_0 PHB", "mlx5_3 PHB"}));
  EXPECT_EQ(hcas_on("two fabrics"), "=mlx5_0:1,mlx5_3:1");
}

TEST(Nics, InfinibandBesideAcceleratedEthernet) {
  EXPECT_EQ(nics_on("accelerated Ethernet"), Texts{"mlx5_ib0 NODE"});
  EXPECT_EQ(hcas_on("accelerated Ethernet"), "=mlx5_ib0:1");
}

TEST(Nics, TheFabricIsTheOneNextToTheGpus) {
  auto nics = nics_on("switch in the NIC");
  for (std::size_t i = 0; i < nics.size(); ++i)
    EXPECT_EQ(nics[i], "mlx5_bond_" + std::to_string(i) + " PXB");
  EXPECT_EQ(hcas_on("switch in the NIC"),
            "=mlx5_bond_0:1,mlx5_bond_1:1,mlx5_bond_2:1,mlx5_bond_3:1,mlx5_bond_4:1,mlx5_bond_5:1,"
            "mlx5_bond_6:1,mlx5_bond_7:1");
}

TEST(Nics, SlowPortsOnTheSameSwitchAreLeftOut) {
  auto nics = nics_on("many NICs each");
  EXPECT_EQ(nics[0], "mlx5_0+mlx5_1+mlx5_2+mlx5_3 PIX");
  EXPECT_EQ(nics[3], "mlx5_12+mlx5_13+mlx5_14+mlx5_15 PIX");
  auto hcas = hcas_on("many NICs each");
  EXPECT_EQ(std::count(hcas.begin(), hcas.end(), ','), 15);
  EXPECT_EQ(hcas.find("mlx5_99"), std::string::npos);
}

TEST(Nics, TiesAreSharedEvenly) {
  std::map<std::string, int> users;
  for (const auto& text : nics_on("four share two"))
    ++users[text];
  EXPECT_EQ(users.size(), 8u);
  for (const auto& [text, count] : users)
    EXPECT_EQ(count, 2) << text;
  EXPECT_EQ(nics_on("GPUs on odd nodes")[0], "mlx5_18 PXB");
  EXPECT_EQ(nics_on("GPUs on odd nodes")[1], "mlx5_19 PXB");
}

TEST(Nics, VirtualFunctionsGiveWayToTheirPhysicalOne) {
  auto machine = own_machine("all on one package");
  auto physical = machine.nics[0];
  for (std::uint8_t function = 1; function < 4; ++function) {
    machine.nics.push_back(physical);
    machine.nics.back().pci.address.function = function;
    machine.nics.back().rdma = "mlx5_" + std::to_string(function);
    machine.nics.back().physical = physical.pci.address;
  }
  auto plan = plan_all(machine);
  EXPECT_EQ(nics_of(machine, plan), (Texts{"mlx5_0 PIX", "mlx5_0 PIX"}));
  EXPECT_EQ(plan.ib_hca, "=mlx5_0:1");
  machine.nics.erase(machine.nics.begin()); // a machine that was given virtual ones only
  EXPECT_EQ(nics_of(machine, plan_all(machine)), (Texts{"mlx5_1 PIX", "mlx5_2+mlx5_3 PIX"}));
}

TEST(Nics, BothActivePortsOfADeviceAreListed) {
  auto machine = own_machine("all on one package");
  machine.nics[0].ports = {{1, PortState::kActive, LinkLayer::kInfiniband, 100000},
                           {2, PortState::kActive, LinkLayer::kInfiniband, 100000}};
  machine.nics[1].rdma = "slow_0";
  machine.nics[1].ports = {{1, PortState::kActive, LinkLayer::kEthernet, 10000}};
  EXPECT_EQ(plan_all(machine).ib_hca, "=mlx5_0:1,mlx5_0:2");
  machine.nics[0].ports[1].link = LinkLayer::kEthernet;
  EXPECT_EQ(plan_all(machine).ib_hca, "=mlx5_0:1");
}

TEST(Nics, AnUnknownStateIsUsable) {
  EXPECT_EQ(nics_on("alternating CPUs"), (Texts{"mlx4_0 PHB", "mlx4_0 SYS", "mlx4_0 SYS"}));
}

TEST(Nics, WithoutAFabricThereIsNone) {
  EXPECT_EQ(nics_on("swapped nodes, no fabric"), (Texts{"", "", "", ""}));
}

TEST(Nics, TheFastestComesBeforeTheNearest) {
  auto machine = own_machine("near ports down");
  for (auto& nic : machine.nics)
    for (auto& port : nic.ports)
      port.state = PortState::kActive, port.rate = nic.rdma == "mlx5_3" ? 400000 : 100000;
  auto plan = plan_all(machine);
  EXPECT_EQ(nics_of(machine, plan)[0], "mlx5_3 SYS");
  EXPECT_EQ(plan.ib_hca, "=mlx5_3:1");
}

TEST(Nics, TheOtherPortOfACardIsUsedWhereItsFirstIsDown) {
  auto machine = own_machine("all on one package");
  machine.nics[0].ports = {{1, PortState::kDown, LinkLayer::kInfiniband, 0},
                           {2, PortState::kActive, LinkLayer::kInfiniband, 100000}};
  machine.nics[1].rdma = "slow_0";
  machine.nics[1].ports = {{1, PortState::kActive, LinkLayer::kEthernet, 10000}};
  auto plan = plan_all(machine);
  EXPECT_EQ(plan.tasks[0].ucx_device, "mlx5_0:2");
  EXPECT_EQ(plan.ib_hca, "=mlx5_0:2");
}

TEST(Nics, TheListIsTheSameForTheWholeNodeWhateverTheTasks) {
  for (const auto& [name, text] : own_machines()) {
    auto machine = machine_from(text);
    auto all = plan_all(machine).ib_hca;
    for (std::uint32_t tasks = 1; tasks <= 2 * machine.gpus.size(); ++tasks)
      EXPECT_EQ(plan_placement(machine, all_gpus(machine, tasks)).ib_hca, all) << name << tasks;
  }
}

TEST(Paths, AsTheTreeSays) {
  auto address = [](const char* text) { return *parse_pci_address(text); };
  PciPlace gpu{
      address("0000:06:00.0"), 1, {address("0000:01:00.0"), address("0000:02:00.0")}, {0}, {0}};
  auto with = [&](std::uint32_t host, std::vector<PciAddress> bridges, IdSet numa) {
    return path_class(gpu, {address("0000:07:00.0"), host, std::move(bridges), numa, numa});
  };
  auto up = address("0000:01:00.0"), other = address("0000:02:01.0"),
       deep = address("0000:05:00.0");
  EXPECT_EQ(with(1, {up, other}, {0}), PathClass::kPix);
  EXPECT_EQ(with(1, {up}, {0}), PathClass::kPix);
  EXPECT_EQ(with(1, {up, other, deep}, {0}), PathClass::kPxb);
  EXPECT_EQ(with(1, {deep}, {0}), PathClass::kPhb);
  EXPECT_EQ(with(1, {}, {0}), PathClass::kPhb);
  EXPECT_EQ(with(2, {}, {0}), PathClass::kNode);
  EXPECT_EQ(with(2, {}, {1}), PathClass::kSys);
  EXPECT_EQ(with(2, {}, {}), PathClass::kUnknown);
}

} // namespace
} // namespace dist_train
