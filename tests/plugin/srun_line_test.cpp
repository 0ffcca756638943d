// SPDX-License-Identifier: BSD-3-Clause
#include "spank/srun_line.h"
#include "spank/srun_ports.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(SrunLine, FindsTheOptionBeforeTheProgramOnly) {
  using Line = std::vector<std::string>;
  struct Case {
    Line arguments;
    bool has;
    const char* value;
    bool kills;
  };
  for (const Case& c : {
           Case{{"--dist-train", "python", "-K"}, true, "", false},
           Case{{"-N", "3", "-n6", "--dist-train=fsdp", "true"}, true, "fsdp", false},
           Case{{"python", "--dist-train=fsdp", "-K"}, false, "", false},
           Case{{"--", "--dist-train"}, false, "", false},
           Case{{"--ntasks", "3", "--dist-train=a", "--dist-train=b", "x"}, true, "b", false},
           Case{{"--label", "true", "--dist-train"}, false, "", false},
           Case{{"-l", "--dist-t=off", "x"}, true, "off", false},
           Case{{"--distribution", "--dist-train", "x"}, false, "", false},
           Case{{"-K", "--dist-train", "x"}, true, "", true},
           Case{{"-K0", "x"}, false, "", true},
           Case{{"-lK1", "x"}, false, "", true},
           Case{{"-lnK", "x"}, false, "", false}, // -n with the value K
           Case{{"-ln", "-K", "x"}, false, "", false},
           Case{{"--kill-on-bad-exit=0", "x"}, false, "", true},
           Case{{"--kill", "x"}, false, "", true},
           Case{{"-n1", "a", ":", "-K", "--dist-train=ddp", "b"}, true, "ddp", true},
           Case{{}, false, "", false},
           Case{{"-"}, false, "", false},
       }) {
    auto line = read_srun_line(c.arguments);
    std::string shown = testing::PrintToString(c.arguments);
    EXPECT_EQ(line.has_dist_train, c.has) << shown;
    EXPECT_EQ(line.dist_train, c.value) << shown;
    EXPECT_EQ(line.kills_on_bad_exit, c.kills) << shown;
  }
}

TEST(SrunLine, TellsWhatTheUserWantsOfCpuBind) {
  using Line = std::vector<std::string>;
  const std::pair<Line, CpuBind> cases[] = {
      {{"-n2", "x", "--cpu-bind=cores"}, CpuBind::kUnsaid},
      {{"--cpu-bind=cores", "x"}, CpuBind::kBinds},
      {{"--cpu-bind", "verbose,mask_cpu:0xf,0xf0", "x"}, CpuBind::kBinds},
      {{"--cpu_bind", "v,map_cpu:0,1", "x"}, CpuBind::kBinds},
      {{"--cpu-bind=verbose", "x"}, CpuBind::kUnsaid},
      {{"--cpu-bind=quiet,None", "x"}, CpuBind::kNone},
      {{"--cpu-bind=cores", "--cpu-b=none", "x"}, CpuBind::kNone},
      {{"--cpus-per-task", "2", "x"}, CpuBind::kUnsaid},
      {{"--cpu-bind"}, CpuBind::kUnsaid},
  };
  for (const auto& [arguments, bind] : cases)
    EXPECT_EQ(read_srun_line(arguments).cpu_bind, bind) << testing::PrintToString(arguments);
}

TEST(SrunLine, TellsNodesAndTasksWhereTheLineSettlesThem) {
  struct Case {
    std::vector<std::string> arguments;
    std::uint32_t nodes, tasks;
  };
  for (const Case& c : {
           Case{{"-N2", "-n", "4", "x"}, 2, 4},
           Case{{"--nodes=2", "--ntasks=4", "x"}, 2, 4},
           Case{{"-lN", "2", "--ntasks-per-node", "3", "x"}, 2, 6},
           Case{{"--ntasks-per-node=3", "x"}, 1, 3},
           Case{{"-n4", "x", "-N", "2"}, 0, 4},
           Case{{"-n4", "--ntasks-per-node=2", "x"}, 0, 4},
           Case{{"-N1-3", "-n4", "x"}, 0, 4},
           Case{{"-N2", "x"}, 2, 0},
           Case{{"--ntasks-per-core=3", "--ntasks-per-gpu", "2", "x"}, 0, 0},
           Case{{"-N2", "-n4", "x", ":", "-n1", "y"}, 0, 0},
           Case{{"-Nmany", "-n99999999999", "x"}, 0, 0},
       }) {
    auto line = read_srun_line(c.arguments);
    EXPECT_EQ(line.nodes, c.nodes) << testing::PrintToString(c.arguments);
    EXPECT_EQ(line.tasks, c.tasks) << testing::PrintToString(c.arguments);
  }
}

TEST(SrunLine, KnowsTheDaemonsOfLaunchers) {
  using Line = std::vector<std::string>;
  const std::pair<Line, bool> cases[] = {
      {{"--external-launcher", "-N2", "x"}, true},
      {{"--ext", "x"}, true},
      {{"--ex", "x"}, false}, // ambiguous to Slurm
      {{"--exact", "-N2", "x"}, false},
      {{"--exclusive", "x"}, false},
      {{"-N", "2", "--kill-on-bad-exit", "/opt/ompi/bin/orted", "-mca", "x"}, true},
      {{"-n2", "--", "prted"}, true},
      {{"-n1", "a", ":", "-n1", "hydra_bstrap_proxy"}, true},
      {{"-n2", "python", "orted"}, false},
      {{"--"}, false},
  };
  for (const auto& [arguments, daemons] : cases)
    EXPECT_EQ(read_srun_line(arguments).by_launcher, daemons) << testing::PrintToString(arguments);
}

TEST(SrunPorts, AreReadAsSlurmReadsItsFile) {
  EXPECT_EQ(srun_port_range("A=1\n SrunPortRange = 60001-63000 # why\n"),
            (PortRange{60001, 63000}));
  EXPECT_EQ(srun_port_range("srunportrange=100-200"), (PortRange{100, 200}));
  for (const char* none : {"", "#SrunPortRange=1-2", "SrunPortRange=", "SrunPortRange=5-4",
                           "SrunPortRange=0-4", "SrunPortRange=1-70000", "XSrunPortRange=1-2"})
    EXPECT_EQ(srun_port_range(none), std::nullopt) << none;
}

} // namespace
} // namespace dist_train
