// SPDX-License-Identifier: BSD-3-Clause
// The text form, there and back, and PCI addresses.
#include "libstep/core/machine_text.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"

namespace dist_train {
namespace {

TEST(MachineText, ThereAndBack) {
  std::vector<std::pair<std::string, Machine>> machines;
  for (const auto& [name, text] : own_machines())
    machines.emplace_back(name, machine_from(text));
  if (!topologies().empty())
    for (const auto& file : files_below(topologies() / "hwloc", ".xml"))
      machines.emplace_back(file, *read_machine(file));
  std::mt19937 random(20260103);
  for (int i = 0; i < 200; ++i)
    machines.emplace_back("random machine " + std::to_string(i), random_machine(random));
  for (auto& [name, machine] : machines) {
    auto text = machine_text(machine);
    auto again = parse_machine_text(text, name);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(machine_text(*again), text) << name;
    machine.name = again->name; // blanks become '_'
    EXPECT_TRUE(*again == machine) << name;
  }
}

TEST(MachineText, ADeviceNextToANumaNodeIsNextToItsCpus) {
  auto machine = parse_machine_text("dist-train-machine 1\nnuma 0 cpus=0-3\nnuma 1 cpus=4-7\n"
                                    "cores 0 1 2 3 4 5 6 7\ngpu 0000:16:00.0 numa=1\n"
                                    "nic 0000:17:00.0 numa=0-1\nnic 0000:18:00.0\n",
                                    "f");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(id_set_text(machine->gpus[0].pci.cpus), "4-7");
  EXPECT_EQ(id_set_text(machine->nics[0].pci.cpus), "0-7");
  EXPECT_EQ(id_set_text(machine->nics[1].pci.cpus), "");
}

TEST(MachineText, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"machine 1\n", "f:1: the first line"},
      {"dist-train-machine 2\n", "f:1: the first line"},
      {"dist-train-machine 1\ncore 0\n", "f:2: unknown line 'core'; did you mean 'cores'?"},
      {"dist-train-machine 1\ncores package=x 0\n", "f:2: cannot read 'package=x'"},
      {"dist-train-machine 1\ncores package=0 0-\n", "f:2: not the CPUs of a core: '0-'"},
      {"dist-train-machine 1\ncores 0 0\n", "CPU 0 is in two cores"},
      {"dist-train-machine 1\nnuma 0 cpus=3-1\n", "f:2: cannot read 'cpus=3-1'"},
      {"dist-train-machine 1\nnuma x\n", "f:2: a numa line wants one number"},
      {"dist-train-machine 1\nnuma 0 memory=hot\n", "f:2: cannot read 'memory=hot'"},
      {"dist-train-machine 1\ngpu 06:00.9\n", "f:2: a gpu line wants one PCI address"},
      {"dist-train-machine 1\ngpu 0000:06:00.0 id=10de\n", "f:2: cannot read 'id=10de'"},
      {"dist-train-machine 1\ngpu 0000:06:00.0 partition=2/2\n", "cannot read 'partition=2/2'"},
      {"dist-train-machine 1\nnic 0000:06:00.0 port=1:up:infiniband:1\n", "cannot read 'port=1:up"},
      {"dist-train-machine 1\nnic 0000:06:00.0 speed=1\n", "cannot read 'speed=1' of a nic line"},
      {"dist-train-machine 1\n", "a machine without cores"},
      {"dist-train-machine 1\ncores 0\nname \x1b[2J\n",
       "f:3: bytes that do not print: 'name \\x1b"},
      {"dist-train-machine 1\ncores 0\nname \xc3\x28\n", "f:3: bytes that do not print"},
      {"dist-train-machine 1\ncores 0-16384\n", "f:2: not the CPUs of a core"},
      {"dist-train-machine 1\ncores 0-9999 0-9999\n", "f:2: more than 16384 CPUs"},
      {"dist-train-machine 1\ngpu 0:06:00.0\ncores 0\ngpu 0:06:00.0\n", "06:00.0 is there twice"},
      {"dist-train-machine 1\nnuma 3\ncores 0\nnuma 3\n", "numa 3 is there twice"},
      {"dist-train-machine 1\nnic 0:06:00.0 physical=x\n", "cannot read 'physical=x'"},
  };
  for (const auto& [text, reason] : wrong) {
    auto machine = parse_machine_text(text, "f");
    ASSERT_FALSE(machine) << text;
    EXPECT_NE(machine.error().message.find(reason), std::string::npos) << machine.error().message;
  }
}

// A file may ask for much in few bytes.
TEST(MachineText, RefusesMoreThanAnyMachineHas) {
  std::string text = "dist-train-machine 1\ncores 0\n";
  for (int i = 0; i < 2000; ++i)
    text += "gpu " + std::to_string(i) + ":00:00.0 cpus=0-16383 numa=0-16383\n";
  auto machine = parse_machine_text(text, "f");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().message, "f:1027: more than 1024 gpu lines");
}

TEST(PciAddresses, InAllTheirForms) {
  EXPECT_EQ(to_text(*parse_pci_address("0000:1b:00.0")), "0000:1b:00.0");
  EXPECT_EQ(to_text(*parse_pci_address("00000000:1B:00.0")), "0000:1b:00.0");
  EXPECT_EQ(to_text(*parse_pci_address("1b:1f.7")), "0000:1b:1f.7");
  EXPECT_EQ(to_text(*parse_pci_address("10001:00:09.0")), "10001:00:09.0");
  for (const char* text : {"", "1b:00", "0000:1b:20.0", "0000:1b:00.8", "0000:1b:00.", ":1b:00.0",
                           "0000:1bc:00.0", "x000:1b:00.0", "0000:1b:00.0 ", "0:0:1b:00.0"})
    EXPECT_FALSE(parse_pci_address(text)) << text;
}

} // namespace
} // namespace dist_train
