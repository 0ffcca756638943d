// SPDX-License-Identifier: BSD-3-Clause
// dist-train topo and dist-train plan, as a person or a program calls them.
#include "libstep/core/machine_text.h"
#include "tests/placement/support.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace dist_train {
namespace {

Outcome command(const std::string& words) {
  return run_command(std::string(DIST_TRAIN_COMMAND) + " " + words);
}

std::string write_machine(const Scratch& scratch, const std::string& name) {
  return scratch.write("machine", machine_text(own_machine(name)));
}

TEST(PlanCommand, JsonForPrograms) {
  Scratch scratch;
  auto file = write_machine(scratch, "many NICs each");
  auto outcome = command("plan --json --machine " + file);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  auto json = nlohmann::json::parse(outcome.text);
  ASSERT_EQ(json["tasks"].size(), 4u);
  const auto& task = json["tasks"][2];
  EXPECT_EQ(task["local_rank"], 2);
  EXPECT_EQ(task["gpu"], "0000:89:00.0");
  EXPECT_EQ(task["numa"], 1);
  EXPECT_EQ(task["cpus"], "12-17,36-41");
  EXPECT_EQ(task["nics"], (nlohmann::json{"mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11"}));
  EXPECT_EQ(task["nic_class"], "PIX");
  EXPECT_FALSE(task["why"].get<std::string>().empty());
  EXPECT_EQ(task["env"]["UCX_NET_DEVICES"], "mlx5_8:1");
  EXPECT_EQ(json["env"]["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
  EXPECT_TRUE(json["env"]["NCCL_IB_HCA"].get<std::string>().starts_with("=mlx5_0:1,"));
  EXPECT_EQ(json["warnings"].size(), 1u);
}

TEST(PlanCommand, WhatIsNotKnownIsNull) {
  Scratch scratch;
  auto outcome = command("plan --json --machine " + write_machine(scratch, "half unknown"));
  auto json = nlohmann::json::parse(outcome.text);
  EXPECT_TRUE(json["tasks"][3]["numa"].is_null());
  EXPECT_EQ(json["tasks"][3]["nic_class"], "?");
  outcome = command("plan --json --tasks 2 --machine " + write_machine(scratch, "no devices"));
  json = nlohmann::json::parse(outcome.text);
  EXPECT_TRUE(json["tasks"][1]["gpu"].is_null());
  EXPECT_TRUE(json["tasks"][1]["nic_class"].is_null());
  EXPECT_EQ(json["tasks"][1]["cpus"], "2-3");
}

TEST(PlanCommand, ChoosesGpusTasksAndCpus) {
  Scratch scratch;
  auto file = write_machine(scratch, "pairs numbered backwards");
  auto outcome = command("plan --machine=" + file +
                         " --gpus 0000:84:00.0,0 --tasks 2 --cpus 2-5,18-21 --json");
  auto json = nlohmann::json::parse(outcome.text);
  EXPECT_EQ(json["tasks"][0]["gpu"], "0000:84:00.0");
  EXPECT_EQ(json["tasks"][0]["cpus"], "18-21");
  EXPECT_EQ(json["tasks"][1]["cpus"], "2-5");
  outcome = command("plan --machine " + file);
  EXPECT_NE(outcome.text.find(
                "task 7: GPU 0000:e4:00.0 on NUMA 1; 4 cores, all next to it; mlx5_0 (PIX)"),
            std::string::npos)
      << outcome.text;
}

TEST(PlanCommand, NamesCpusThatAreNotThere) {
  Scratch scratch;
  auto outcome = command("plan --cpus 0-3,2000-2001 --bind keep --machine " +
                         write_machine(scratch, "pairs numbered backwards"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.text.find("warning: CPUs 2000-2001 do not exist on this machine\n"),
            std::string::npos)
      << outcome.text;
}

TEST(PlanCommand, WrongWordsAreNamed) {
  Scratch scratch;
  auto file = write_machine(scratch, "all on one package");
  const std::pair<const char*, const char*> wrong[] = {
      {"--taks 2", "did you mean '--tasks'?"},
      {"--tasks 0", "--tasks '0' is not a number from 1"},
      {"--tasks", "--tasks wants a value"},
      {"--tasks 1 --tasks 2", "--tasks twice"},
      {"--json=yes", "unknown argument '--json=yes'"},
      {"--gpus 2", "'2' names no GPU of this machine, which has 2"},
      {"--gpus 0,0", "once more"},
      {"--cpus 99", "holds no CPU of the machine"},
      {"--cpus 3-1", "not a set of ids"},
      {"--bind near", "is not auto, gpu, numa, core, keep or none"}};
  for (const auto& [words, reason] : wrong) {
    auto outcome = command("plan --machine " + file + " " + words);
    EXPECT_EQ(outcome.code, 2) << words;
    EXPECT_NE(outcome.text.find(reason), std::string::npos) << outcome.text;
  }
  auto outcome = command("plan --machine /nonexistent");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("/nonexistent: cannot be opened"), std::string::npos);
}

TEST(TopoCommand, ShowsTheMatrix) {
  Scratch scratch;
  auto outcome = command("topo --machine " + write_machine(scratch, "near ports down"));
  EXPECT_EQ(outcome.code, 0);
  for (const char* line : {"2 packages, 8 NUMA nodes, 32 cores, 64 CPUs, 4 GPUs, 5 NICs",
                           "gpu  address       numa  cpus         n0     n1     n2    n3    n4",
                           "  0  0000:16:00.0     1  4-7,36-39    (PXB)  (SYS)  SYS*  SYS   SYS",
                           "  3  0000:76:00.0     7  28-31,60-63  (SYS)  (SYS)  SYS   PXB*  SYS",
                           "n0   mlx5_0:1  0000:13:00.0     1  InfiniBand  down           -  -",
                           "n2   mlx5_2:1  0000:53:00.0     6  InfiniBand  active  400 Gb/s  -",
                           "   6        1  24-27,56-59  dram    2     n2", "PIX one PCIe switch",
                           "warning: mlx5_0 port 1 is DOWN; gpu 0000:16:00.0 uses mlx5_2:1 (SYS)"})
    EXPECT_NE(outcome.text.find(line), std::string::npos) << line << '\n' << outcome.text;
}

TEST(TopoCommand, SavesWhatItReadsAgain) {
  Scratch scratch;
  auto folder = scratch.path("saved");
  auto outcome = command("topo --save " + folder);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  auto here = command("topo").text;
  auto host = here.find(": "); // its name is not said
  EXPECT_EQ(command("topo --machine " + folder + "/machine.txt").text, here.substr(host + 2));
  std::ifstream file(folder + "/machine.xml");
  std::string xml((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(command("topo --machine " + folder + "/machine.xml").code, 0);
  EXPECT_NE(xml.find("\"hwlocVersion\""), std::string::npos);
  for (const char* info :
       {"HostName", "ProcessName", "LinuxCgroup", "Serial", "UUID", "\"Address\""})
    EXPECT_EQ(xml.find(info), std::string::npos) << info;
  EXPECT_EQ(command("topo --save " + folder).code, 1); // nothing is overwritten
  EXPECT_EQ(command("topo --save a --cache").code, 2);
}

TEST(Help, ListsTheCommands) {
  auto text = command("--help").text;
  for (const char* words : {"dist-train topo", "--save DIR", "--cache", "dist-train plan",
                            "--machine FILE", "--gpus LIST", "--tasks N", "--cpus SET", "--json"})
    EXPECT_NE(text.find(words), std::string::npos) << words;
  EXPECT_NE(command("tpo").text.find("did you mean 'topo'?"), std::string::npos);
}

} // namespace
} // namespace dist_train
