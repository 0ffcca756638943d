// SPDX-License-Identifier: BSD-3-Clause
// Reading machines from files: what counts as what, and what is refused.
#include "libstep/core/machine_text.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"
#include "tests/placement/xml.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace dist_train {
namespace {

Machine read_document(const xml::Machine& document) {
  Scratch scratch;
  auto machine = read_machine(scratch.write("machine.xml", xml::document(document)));
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  return machine ? *machine : Machine{};
}

std::string reason_against(const std::string& path) {
  auto machine = read_machine(path);
  EXPECT_FALSE(machine) << path;
  if (machine)
    return "";
  EXPECT_EQ(machine.error().message.find(path), 0u) << machine.error().message;
  return machine.error().message.substr(path.size());
}

TEST(HwlocXml, OnlyWhatComputesIsAGpu) {
  xml::Machine document;
  document.devices[0] = xml::host_bridge(
      0, xml::function("0000:01:00.0", "0300 [1a03:2000]", xml::device("card0", xml::kGpu)) +
             xml::function("0000:02:00.0", "0300 [102b:0536]") +
             xml::function("0000:03:00.0", "0300 [1002:515e]") +
             xml::function("0000:04:00.0", "0b40 [8086:37c8]") +
             xml::function("0000:05:00.0", "0302 [10de:2335]", xml::device("card1", xml::kGpu)) +
             xml::function("0000:06:00.0", "0300 [10de:1eb8]") +
             xml::function("0000:07:00.0", "0680 [10de:22a3]"));
  document.devices[1] =
      xml::host_bridge(0x40, xml::function("0000:41:00.0", "0380 [1002:7408]") +
                                 xml::function("0000:42:00.0", "1200 [1002:74a0]",
                                               xml::device("rsmi3", xml::kCoprocessor) +
                                                   xml::device("rsmi4", xml::kCoprocessor) +
                                                   xml::device("rsmi5", xml::kCoprocessor)) +
                                 xml::function("0000:43:00.0", "0300 [1002:67a0]"));
  auto machine = read_document(document);
  std::vector<std::string> gpus;
  for (const auto& gpu : machine.gpus)
    gpus.push_back(to_text(gpu.pci.address) + " " + std::to_string(gpu.partition) + "/" +
                   std::to_string(gpu.partitions) + " " + id_set_text(gpu.pci.cpus));
  EXPECT_EQ(gpus, (std::vector<std::string>{"0000:05:00.0 0/1 0-1", "0000:06:00.0 0/1 0-1",
                                            "0000:41:00.0 0/1 2-3", "0000:42:00.0 0/3 2-3",
                                            "0000:42:00.0 1/3 2-3", "0000:42:00.0 2/3 2-3",
                                            "0000:43:00.0 0/1 2-3"}));
  EXPECT_EQ(machine.gpus[0].names, std::vector<std::string>{"card1"});
}

TEST(HwlocXml, NetworkFunctionsWithAndWithoutDevices) {
  auto active = xml::info("Port1State", "4"), down = xml::info("Port1State", "1");
  xml::Machine document;
  document.devices[0] = xml::host_bridge(
      0, xml::function("0000:01:00.0", "0200 [1137:0043]", xml::device("eth0", xml::kNet)) +
             xml::function("0000:01:00.1", "0200 [1137:0071]") + // a virtual function nobody uses
             xml::function("0000:02:00.0", "0208 [8086:24f0]",
                           xml::device("hfi1_0", xml::kRdma, active)) +
             xml::function("0000:03:00.0", "0c06 [15b3:673c]",
                           xml::device("mlx4_0", xml::kRdma) + xml::device("ib0", xml::kNet)) +
             xml::function("0000:04:00.0", "0200 [1d0f:efa0]",
                           xml::device("rdmap4s0", xml::kRdma, active)) +
             xml::function("0000:05:00.0", "0207 [15b3:1017]",
                           xml::device("mlx5_0", xml::kRdma, down + xml::info("Port2State", "4"))));
  auto machine = read_document(document);
  ASSERT_EQ(machine.nics.size(), 5u);
  const Fabric fabrics[] = {Fabric::kNone, Fabric::kInfiniband, Fabric::kInfiniband, Fabric::kEfa,
                            Fabric::kInfiniband};
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(fabric_of(machine.nics[i]), fabrics[i]) << i;
  EXPECT_TRUE(machine.nics[2].ports.empty());
  ASSERT_EQ(machine.nics[4].ports.size(), 2u);
  EXPECT_EQ(machine.nics[4].ports[0].state, PortState::kDown);
  EXPECT_EQ(machine.nics[4].ports[1].state, PortState::kActive);
  EXPECT_EQ(machine.nics[4].pci_rate, 252032u);
}

TEST(HwlocXml, WhatHangsOnTheMachineIsNowhere) {
  xml::Machine document;
  document.rootless = xml::host_bridge(0, xml::function("0000:01:00.0", "0302 [10de:2335]"));
  auto machine = read_document(document);
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_TRUE(machine.gpus[0].pci.cpus.empty());
  EXPECT_TRUE(machine.gpus[0].pci.numa.empty());
}

TEST(HwlocXml, BridgesAreThePath) {
  auto gpu = xml::function("0000:04:00.0", "0302 [10de:2335]");
  auto nic = xml::function("0000:05:00.0", "0207 [15b3:1021]", xml::device("mlx5_0", xml::kRdma));
  xml::Machine document;
  document.devices[0] =
      xml::host_bridge(0, xml::bridge("0000:01:00.0", xml::bridge("0000:02:00.0", gpu) +
                                                          xml::bridge("0000:02:01.0", nic)));
  auto machine = read_document(document);
  ASSERT_EQ(machine.gpus.size() + machine.nics.size(), 2u);
  EXPECT_EQ(path_class(machine.gpus[0].pci, machine.nics[0].pci), PathClass::kPix);
  document.devices[0] =
      xml::host_bridge(0, xml::bridge("0000:01:00.0", xml::bridge("0000:02:00.0", gpu)) + nic);
  machine = read_document(document);
  EXPECT_EQ(path_class(machine.gpus[0].pci, machine.nics[0].pci), PathClass::kPhb);
}

TEST(HwlocXml, MemoryThatIsNotForPrograms) {
  xml::Machine document;
  document.memory =
      xml::memory_node(2, "0x00000003", "GPUMemory") + xml::memory_node(3, "0x00000003", "MCDRAM");
  auto machine = read_document(document);
  ASSERT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[0].memory, Memory::kDram);
  EXPECT_EQ(machine.numa_nodes[2].memory, Memory::kGpu);
  EXPECT_EQ(machine.numa_nodes[3].memory, Memory::kOther);
  EXPECT_EQ(numa_of(machine, {0}), IdSet{0});
}

// hwloc 3 reads it no more.
TEST(HwlocXml, OfTheFirstReleaseIsReadWhereHwlocDoes) {
  auto sets = [](const std::string& cpus) {
    return " cpuset=\"" + cpus + "\" complete_cpuset=\"" + cpus + "\" online_cpuset=\"" + cpus +
           "\" allowed_cpuset=\"" + cpus +
           "\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\"";
  };
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n<topology>\n"
      "<object type=\"Machine\" os_index=\"0\"" +
      sets("0x3") + ">\n<object type=\"NUMANode\" os_index=\"0\"" + sets("0x3") +
      " local_memory=\"1073741824\">\n";
  for (const char* cpu : {"0", "1"})
    text += std::string("<object type=\"Core\" os_index=\"") + cpu + "\"" +
            sets(*cpu == '0' ? "0x1" : "0x2") + "><object type=\"PU\" os_index=\"" + cpu + "\"" +
            sets(*cpu == '0' ? "0x1" : "0x2") + "/></object>\n";
  text += "<object type=\"Bridge\" os_index=\"0\" bridge_type=\"0-1\" depth=\"0\" "
          "bridge_pci=\"0000:[00-1f]\"><object type=\"PCIDev\" os_index=\"4096\" "
          "pci_busid=\"0000:01:00.0\" pci_type=\"0302 [10de:15f8] [0000:0000] a1\" "
          "pci_link_speed=\"0.000000\"/></object>\n</object></object></topology>\n";
  Scratch scratch;
  auto machine = read_machine(scratch.write("machine.xml", text));
  if (!machine) {
    EXPECT_NE(machine.error().message.find("XML of hwloc 1"), std::string::npos)
        << machine.error().message;
    return;
  }
  ASSERT_EQ(machine->gpus.size(), 1u);
  EXPECT_EQ(machine->gpus[0].pci.cpus, (IdSet{0, 1}));
  EXPECT_EQ(machine->gpus[0].pci.numa, IdSet{0});
}

// Before hwloc named them, nodes of a GPU or of memory behind a link looked like others.
TEST(HwlocXml, ANodeWithoutCpusOfItsOwnIsNotForPrograms) {
  xml::Machine document;
  document.memory = xml::memory_node(2, "0x00000003", "") + xml::memory_node(3, "0x00000003", "");
  auto machine = read_document(document);
  ASSERT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[0].memory, Memory::kDram);
  EXPECT_EQ(machine.numa_nodes[1].memory, Memory::kDram);
  EXPECT_EQ(machine.numa_nodes[2].memory, Memory::kNoCpus);
  EXPECT_EQ(machine.numa_nodes[3].memory, Memory::kNoCpus);
  EXPECT_EQ(plan_placement(machine, all_gpus(machine, 2)).tasks[0].memory, IdSet{0});
}

// What a library of the vendor's adds makes no other machine of it.
TEST(HwlocXml, VendorDevicesMakeNoDifference) {
  auto read = [&](const std::string& first, const std::string& second) {
    xml::Machine document;
    document.devices[0] =
        xml::host_bridge(0, xml::function("0000:05:00.0", "0302 [10de:2335]", first));
    document.devices[1] =
        xml::host_bridge(0x40, xml::function("0000:45:00.0", "0302 [10de:2335]", second));
    auto machine = read_document(document);
    for (auto& gpu : machine.gpus)
      gpu.names.clear();
    return machine;
  };
  auto bare = read("", "");
  EXPECT_EQ(bare.gpus.size(), 2u);
  EXPECT_TRUE(bare ==
              read(xml::device("cuda1", xml::kCoprocessor) + xml::device("nvml1", xml::kGpu),
                   xml::device("cuda0", xml::kCoprocessor)));
}

TEST(HwlocXml, WhatIsNotAllowedIsSeenButNotUsed) {
  xml::Machine document;
  document.allowed_cpus = "0x00000006";
  auto machine = read_document(document);
  EXPECT_EQ(id_set_text(all_cpus(machine)), "0-3");
  EXPECT_EQ(id_set_text(machine.allowed_cpus), "1-2");
  PlacementRequest request;
  request.tasks = 2;
  auto plan = plan_placement(machine, request);
  EXPECT_EQ(plan.tasks[0].cpus, IdSet{1});
  EXPECT_EQ(plan.tasks[1].cpus, IdSet{2});
}

TEST(BadFiles, AreRefusedWithFileAndReason) {
  Scratch scratch;
  auto good = xml::document({});
  auto expect = [&](const std::string& content, const std::string& reason) {
    auto path = scratch.write("file", content);
    EXPECT_NE(reason_against(path).find(reason), std::string::npos) << reason_against(path);
  };
  expect("", "is empty");
  expect("#!/bin/sh\necho\n", ":2: the first line has to be");
  expect("Machine (64GB)\n", "neither hwloc's XML nor");
  expect(std::string("\x7f"
                     "ELF\0\0",
                     6),
         "binary");
  expect("<system version=\"1\"><cpu numaid=\"0\"/></system>", "NCCL topology file");
  expect("<?xml version=\"1.0\"?>\n<topology version=\"3.0\"></topology>", "XML of hwloc 3.0");
  expect("<?xml version=\"1.0\"?>\n<topology version=\"2.0\"></topology>", "cannot read this XML");
  expect(good.substr(0, good.size() - 20), "ends early");
  expect("<topology version=\"2.0\">\n<object type=\"\xff\xfe\x1b[2J\"></object></topology>",
         "cannot read this XML");
  expect("dist-train-machine 1\ncores 0 1\nname \xff\xfe\n", ":3: bytes that do not print");
  expect("dist-train-machine 1\nnuma 0 package=0 cpus=0-3\n", "a machine without cores");
  EXPECT_NE(reason_against(scratch.path("none")).find("No such file"), std::string::npos);
  EXPECT_NE(reason_against(scratch.path("")).find("has no proc folder"), std::string::npos);
  ASSERT_EQ(mkfifo(scratch.path("pipe").c_str(), 0600), 0);
  EXPECT_NE(reason_against(scratch.path("pipe")).find("not a regular file"), std::string::npos);
  auto large = scratch.write("large", "x");
  std::filesystem::resize_file(large, kMaxMachineFile + 1);
  EXPECT_NE(reason_against(large).find("larger than 16 MiB"), std::string::npos);
}

TEST(BadFiles, OfOthersAreRefusedToo) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  for (const char* folder : {"bad-format", "nccl"})
    for (const auto& file : files_below(topologies() / folder, ".xml"))
      EXPECT_FALSE(reason_against(file).empty()) << file;
}

// Whatever a file holds: a machine or a reason, within the process.
TEST(BadFiles, DamagedOnesDoNoHarm) {
  Scratch scratch;
  xml::Machine document;
  document.devices[0] = xml::host_bridge(
      0, xml::function("0000:01:00.0", "0302 [10de:2335]") +
             xml::function("0000:05:00.0", "0207 [15b3:1021]",
                           xml::device("mlx5_0", xml::kRdma, xml::info("Port1State", "4"))));
  const std::string good[] = {xml::document(document), machine_text(own_machine("two fabrics"))};
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    auto text = good[i % 2];
    for (int n = 1 + i % 5; n > 0; --n) {
      auto at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, random() % 40);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 200));
        break;
      default:
        text.insert(at, std::to_string(random()));
      }
    }
    auto path = scratch.write("damaged", text);
    auto machine = read_machine(path);
    if (!machine) {
      EXPECT_FALSE(machine.error().message.empty());
      continue;
    }
    auto plan = plan_placement(*machine, all_gpus(*machine, 3));
    EXPECT_FALSE(plan.tasks[0].cpus.empty());
  }
}

TEST(Environment, DoesNotChooseTheMachine) {
  Scratch scratch;
  auto file = scratch.write("other.xml", xml::document({}));
  auto before = read_this_machine();
  ASSERT_TRUE(before) << before.error().message;
  const std::pair<const char*, std::string> ours[] = {{"HWLOC_XMLFILE", file},
                                                      {"HWLOC_SYNTHETIC", "pack:4 core:4 pu:2"},
                                                      {"HWLOC_FSROOT", scratch.path("")},
                                                      {"HWLOC_THISSYSTEM", "1"},
                                                      {"HWLOC_COMPONENTS", "synthetic"},
                                                      {"HWLOC_PLUGINS_PATH", scratch.path("")}};
  for (const auto& [name, value] : ours)
    setenv(name, value.c_str(), 1);
  auto after = read_this_machine();
  for (const auto& [name, value] : ours) {
    EXPECT_EQ(std::string(getenv(name) ? getenv(name) : ""), value); // back again
    unsetenv(name);
  }
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(machine_text(*after), machine_text(*before));
  EXPECT_EQ(getenv("HWLOC_HIDE_ERRORS"), nullptr);
}

TEST(Cache, IsOfThisBootAndOfRootAlone) {
  if (geteuid() != 0)
    GTEST_SKIP() << "not root";
  Scratch scratch;
  auto path = scratch.path("cache/machine.xml");
  auto written = write_machine_cache(path);
  ASSERT_TRUE(written) << written.error().message;
  auto read = read_machine_cache(path);
  ASSERT_TRUE(read) << read.error().message;
  auto live = read_this_machine();
  ASSERT_TRUE(live);
  EXPECT_EQ(machine_text(*read), machine_text(*live));

  auto reason = [&](const std::string& file) {
    auto machine = read_machine_cache(file);
    EXPECT_FALSE(machine) << file;
    return machine ? "" : machine.error().message;
  };
  std::ifstream stream(path);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  auto other = text;
  other.replace(other.find(boot), boot.size(), "00000000-0000-0000-0000-000000000000");
  EXPECT_NE(reason(scratch.write("other", other)).find("another boot"), std::string::npos);
  auto devices = text.find("DistTrainDevices\" value=\"");
  ASSERT_NE(devices, text.npos);
  other = text;
  other.insert(devices + 25, "mlx5_0 ");
  EXPECT_NE(reason(scratch.write("other", other)).find("come or gone"), std::string::npos);
  EXPECT_NE(reason(scratch.write("other", xml::document({}))).find("no cache"), std::string::npos);
  ASSERT_EQ(symlink(path.c_str(), scratch.path("link").c_str()), 0);
  EXPECT_NE(reason(scratch.path("link")).find("cannot be opened"), std::string::npos);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_NE(reason(path).find("others than root"), std::string::npos);
  ASSERT_EQ(chmod(path.c_str(), 0644) + chown(path.c_str(), 65534, 65534), 0);
  EXPECT_NE(reason(path).find("others than root"), std::string::npos);
}

// A node's /proc and /sys, as hwloc-gather-topology packs them.
TEST(Archives, OfOthersSayWhatMayBeUsed) {
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  struct Right {
    const char *archive, *cpus, *allowed, *numa, *allowed_numa;
  };
  const Right rights[] = {{"16amd64-8n2c-cpusets", "0-3,5-15", "0-3,5-6,12-15", "0-7", "1-4"},
                          {"32amd64-4s2n4c-cgroup2", "0-31", "0-5", "0-7", "0-5"},
                          {"offline-cpu0-node0", "4-20", "4-20", "1", "1"},
                          {"nvidiagpunumanodes", "0-15,88-103", "0-15,88-103", "0,8", "0,8"},
                          {"nvidia-dgx-gb10", "0-19", "0-19", "0", "0"},
                          {"40intel64-2g2n4c+pcilocality", "0-39", "0-39", "0-3", "0-3"}};
  for (const auto& right : rights) {
    SCOPED_TRACE(right.archive);
    Scratch scratch;
    auto unpacked = run_command("tar -xjf '" + (topologies() / "fsroot" / right.archive).string() +
                                ".tar.bz2' -C " + scratch.path(""));
    ASSERT_EQ(unpacked.code, 0) << unpacked.text;
    auto folder = std::filesystem::directory_iterator(scratch.path(""))->path();
    auto machine = read_machine(folder);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(id_set_text(all_cpus(*machine)), right.cpus);
    EXPECT_EQ(id_set_text(machine->allowed_cpus), right.allowed);
    IdSet numa;
    for (const auto& node : machine->numa_nodes)
      numa.push_back(node.id);
    EXPECT_EQ(id_set_text(numa), right.numa);
    EXPECT_EQ(id_set_text(intersection(machine->allowed_numa, numa)), right.allowed_numa);
    for (const auto& nic : machine->nics)
      EXPECT_TRUE(nic.pci.numa.empty()); // no PCI locality in the one that has any
    for (const auto& task : plan_placement(*machine, all_gpus(*machine, 2)).tasks) {
      EXPECT_EQ(intersection(task.cpus, machine->allowed_cpus), task.cpus);
      EXPECT_EQ(intersection(task.memory, machine->allowed_numa), task.memory);
    }
  }
}

} // namespace
} // namespace dist_train
