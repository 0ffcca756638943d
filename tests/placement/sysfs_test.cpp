// SPDX-License-Identifier: BSD-3-Clause
// What a running node says in /sys and /proc.
#include "libstep/os/machine_sysfs.h"
#include "tests/placement/support.h"

#include <filesystem>

namespace dist_train {
namespace {

TEST(Sysfs, PortsSayStateLinkAndRate) {
  Scratch root;
  auto ports = std::string("sys/class/infiniband/mlx5_0/ports/");
  root.write(ports + "1/state", "4: ACTIVE\n");
  root.write(ports + "1/link_layer", "InfiniBand\n");
  root.write(ports + "1/rate", "400 Gb/sec (4X NDR)\n");
  root.write(ports + "2/state", "1: DOWN\n");
  root.write(ports + "2/link_layer", "Ethernet\n");
  root.write(ports + "2/rate", "2.5 Gb/sec (1X SDR)\n");
  root.write(ports + "readme", "not a port");
  auto machine = own_machine("two fabrics");
  read_nics(machine, root.path(""));
  EXPECT_EQ(machine.nics[0].ports,
            (std::vector<NicPort>{{1, PortState::kActive, LinkLayer::kInfiniband, 400000},
                                  {2, PortState::kDown, LinkLayer::kEthernet, 2500}}));
  EXPECT_EQ(machine.nics[1].ports[0].state, PortState::kActive); // as it was
}

TEST(Sysfs, InterfacesSayItWhereThereIsNoRdmaDevice) {
  Scratch root;
  auto net = std::string("sys/class/net/");
  root.write(net + "hsn0/operstate", "down\n");
  root.write(net + "hsn0/speed", "-1\n");
  root.write(net + "hsn1/operstate", "up\n");
  root.write(net + "hsn1/speed", "200000\n");
  root.write(net + "hsn3/operstate", "down\n");
  root.write(net + "hsn3/speed", "-1\n");
  auto machine = own_machine("cache-sized localities");
  for (auto& nic : machine.nics)
    if (nic.interfaces == std::vector<std::string>{"hsn1"})
      nic.interfaces = {"hsn9", "../hsn0", "hsn0", "hsn1"};
  read_nics(machine, root.path(""));
  for (const auto& nic : machine.nics) {
    NicPort up{1, PortState::kActive, LinkLayer::kEthernet, 200000};
    NicPort down{1, PortState::kDown, LinkLayer::kEthernet, 0};
    auto name = nic.interfaces.back();
    auto wanted = name == "hsn1"                     ? std::vector{up}
                  : name == "hsn0" || name == "hsn3" ? std::vector{down}
                                                     : std::vector<NicPort>{};
    EXPECT_EQ(nic.ports, wanted) << name;
    EXPECT_EQ(fabric_of(nic), name == "ens2" ? Fabric::kNone : Fabric::kSlingshot);
  }
  auto plan = plan_placement(machine, all_gpus(machine, 8));
  EXPECT_EQ(plan.tasks[0].nic_class, PathClass::kSys); // hsn3 was next to it
  EXPECT_EQ(plan.warnings.front(), "hsn3 is DOWN; gpu 0000:c0:00.0 uses hsn9 (SYS)");
}

TEST(Sysfs, VirtualFunctionsPointToTheirPhysicalOne) {
  Scratch root;
  auto machine = own_machine("two fabrics");
  auto folder =
      std::filesystem::path(root.write("sys/bus/pci/devices/0000:0a:00.0/class", "0x020700\n"))
          .parent_path();
  std::filesystem::create_symlink("../0000:92:00.0", folder / "physfn");
  read_nics(machine, root.path(""));
  EXPECT_EQ(machine.nics[0].physical, parse_pci_address("0000:92:00.0"));
  EXPECT_FALSE(machine.nics[1].physical);
}

TEST(Sysfs, NonsenseIsNotKnown) {
  Scratch root;
  auto port = std::string("sys/class/infiniband/mlx5_0/ports/1/");
  root.write(port + "link_layer", "Unspecified\n");
  root.write(port + "rate", "-4e99 Gb/sec\n");
  auto machine = own_machine("two fabrics");
  machine.nics[1].rdma = "../mlx5_0";
  auto before = machine.nics[1].ports;
  read_nics(machine, root.path(""));
  EXPECT_EQ(machine.nics[0].ports, std::vector<NicPort>{NicPort{}});
  EXPECT_EQ(machine.nics[1].ports, before);
}

TEST(Sysfs, MinorsAreNotIndices) {
  Scratch root;
  auto gpus = std::string("proc/driver/nvidia/gpus/");
  root.write(gpus + "0000:04:00.0/information",
             "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-aa\nDevice Minor: \t 1\n");
  root.write(gpus + "0000:07:00.0/information", "GPU UUID: \t GPU-????\nDevice Minor: \t 0\n");
  root.write(gpus + "0000:99:00.0/information", "Device Minor: \t 2\n");
  auto machine = own_machine("all on one package");
  read_gpu_identity(machine, root.path(""));
  EXPECT_EQ(machine.gpus[0].minor, 1u);
  EXPECT_EQ(machine.gpus[0].uuid, "GPU-aa");
  EXPECT_EQ(machine.gpus[1].minor, 0u);
}

TEST(Sysfs, PartitionsMultiplyAGpu) {
  Scratch root;
  auto node = [&](int number, const char* text) {
    root.write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(number) + "/properties", text);
  };
  node(0, "cpu_cores_count 64\nlocation_id 0\ndomain 0\n");
  // Bus 2, device 0; the function's bits count the partitions.
  node(1, "location_id 512\ndomain 0\n");
  node(2, "location_id 513\ndomain 0\n");
  node(3, "location_id 514\ndomain 0\n");
  node(4, "location_id 33280\ndomain 0\n"); // bus 0x82
  auto machine = own_machine("two fabrics");
  read_gpu_identity(machine, root.path(""));
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[2].partition, 2u);
  EXPECT_EQ(machine.gpus[2].partitions, 3u);
  EXPECT_EQ(machine.gpus[2].order, 2u);
  EXPECT_EQ(machine.gpus[3].partitions, 1u);
  EXPECT_EQ(machine.gpus[3].uuid, "");
}

TEST(Sysfs, RocmCountsInAnOrderOfItsOwn) {
  Scratch root;
  auto nodes = std::string("sys/class/kfd/kfd/topology/nodes/");
  root.write(nodes + "9/properties", "location_id 33280\ndomain 0\nunique_id 255\n");
  root.write(nodes + "10/properties", "location_id 512\ndomain 0\nunique_id 4096\n");
  auto machine = own_machine("two fabrics");
  read_gpu_identity(machine, root.path(""));
  EXPECT_EQ(machine.gpus[0].order, 1u);
  EXPECT_EQ(machine.gpus[1].order, 0u);
  EXPECT_EQ(machine.gpus[1].uuid, "GPU-00000000000000ff");
}

TEST(Sysfs, DeviceFilesTellWhatTheCgroupAdmits) {
  Scratch root;
  auto machine = own_machine("swapped nodes, no fabric");
  for (std::uint32_t i = 0; i < 3; ++i)
    machine.gpus[i].minor = 2 - i;
  machine.gpus[3].names = {"card3", "renderD131"};
  EXPECT_EQ(accessible_gpus(machine, root.path("")), (std::vector<std::size_t>{0, 1, 2, 3}));
  root.write("dev/nvidia0", "");
  root.write("dev/dri/renderD131", "");
  EXPECT_EQ(accessible_gpus(machine, root.path("")), (std::vector<std::size_t>{2, 3}));
}

TEST(Sysfs, TheListOfDevicesKnowsGpusAndRdma) {
  Scratch root;
  root.write("sys/class/infiniband/mlx5_1/x", "");
  root.write("sys/class/infiniband/mlx5_0/x", "");
  root.write("sys/bus/pci/devices/0000:06:00.0/class", "0x030200\n");
  root.write("sys/bus/pci/devices/0000:07:00.0/class", "0x020700\n");
  root.write("sys/bus/pci/devices/0000:08:00.0/class", "0x120000\n");
  EXPECT_EQ(device_list(root.path("")),
            (std::vector<std::string>{"mlx5_0", "mlx5_1", "0000:06:00.0", "0000:08:00.0"}));
}

} // namespace
} // namespace dist_train
