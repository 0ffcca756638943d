// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/launchers.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(Launchers, AreFoundInPlainSight) {
  struct Case {
    std::vector<std::string> command;
    const char* launcher;
  };
  for (const Case& c : {
           Case{{}, ""},
           Case{{"torchrun", "train.py"}, "torchrun"},
           Case{{"/opt/venv/bin/torchrun", "--nproc_per_node=8", "train.py"}, "torchrun"},
           Case{{"python3", "-u", "-m", "torch.distributed.run", "x.py"},
                "python -m torch.distributed.run"},
           Case{{"python", "-um", "torch.distributed.launch"},
                "python -m torch.distributed.launch"},
           Case{{"python3.11", "-X", "dev", "-mtorch.distributed.run"},
                "python -m torch.distributed.run"},
           Case{{"accelerate", "launch", "train.py"}, "accelerate launch"},
           Case{{"env", "A=1", "numactl", "-N", "0", "deepspeed", "t.py"}, "deepspeed"},
           Case{{"apptainer", "exec", "--nv", "torchrun.sif", "torchrun", "t.py"}, "torchrun"},
           Case{{"bash", "-c", "cd x && export A=\"b c\"; exec torchrun t.py"}, "torchrun"},
           Case{{"/bin/sh", "-ec", "python -m accelerate.commands.launch t.py"},
                "python -m accelerate.commands.launch"},
           Case{{"bash", "-lc", "python train.py --launcher torchrun"}, ""},
           Case{{"python", "train.py", "torchrun"}, ""},
           Case{{"python", "-m", "train", "deepspeed"}, ""},
           Case{{"python", "-c", "print('torchrun')"}, ""},
           Case{{"python", "-m"}, ""},
           Case{{"./job.sh", "torchrun"}, ""},
           Case{{"accelerate", "config"}, ""},
           Case{{"run", "--engine", "deepspeed"}, ""},
           Case{{"run", "--quiet=1", "deepspeed"}, "deepspeed"},
           Case{{"tini", "--", "torchrun"}, "torchrun"},
           Case{{"bash", "-c"}, ""},
       })
    EXPECT_EQ(launcher_in(c.command), c.launcher) << testing::PrintToString(c.command);
}

TEST(NumberArgument, IsReadInPlainSight) {
  struct Case {
    std::vector<std::string> command;
    std::uint32_t size;
  };
  for (const Case& c : {
           Case{{}, 0},
           Case{{"python", "x.py", "--tp", "8"}, 8},
           Case{{"python", "x.py", "--tp=8"}, 8},
           Case{{"python", "x.py", "--tp=8", "--tp", "2"}, 2},
           Case{{"bash", "-c", "cd x; python x.py --tp 4 --pp 2"}, 4},
           Case{{"bash", "-c", "python x.py --tp=\"4\""}, 0}, // not in plain sight
           Case{{"bash", "-c", "'python x.py --tp 4'"}, 4},
           Case{{"x", "--tp"}, 0},
           Case{{"x", "--tp", "--other"}, 0},
           Case{{"x", "--tp", "-3"}, 0},
           Case{{"x", "--tp", "99999999999999999999"}, 0},
           Case{{"x", "--tpx", "3", "--tpx=4"}, 0},
       })
    EXPECT_EQ(number_argument(c.command, "--tp"), c.size) << testing::PrintToString(c.command);
}

const Options verbose = *parse_options("torch,verbose");

TEST(LaunchWarnings, TorchrunThatDoesNotKnowOfTheOtherNodes) {
  LaunchFacts launch{{"torchrun", "train.py"}, 2, 2};
  auto warnings = launch_warnings(launch, {}, {});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "'torchrun' without --nnodes trains on each node alone; "
                         "--dist-train=torchrun tells it of all 2 nodes");
  EXPECT_TRUE(launch_warnings(launch, {}, *parse_options("torchrun")).empty());
  EXPECT_TRUE(launch_warnings({{"torchrun", "--nnodes=2", "x.py"}, 2, 2}, {}, {}).empty());
  EXPECT_TRUE(launch_warnings({{"sh", "-c", "torchrun --standalone x"}, 2, 2}, {}, {}).empty());
  EXPECT_TRUE(launch_warnings({{"torchrun", "train.py"}, 1, 1}, {}, {}).empty());
}

TEST(LaunchWarnings, TorchrunToldOtherwiseThanByItsMode) {
  const auto torchrun = *parse_options("torchrun");
  struct Case {
    std::vector<std::string> command;
    const char* part;
  };
  for (const Case& c : {
           Case{{"torchrun", "--standalone", "x.py"}, "--standalone trains on each of the 2 nodes"},
           Case{{"sh", "-c", "exec torchrun --standalone x.py"}, "--standalone trains on each"},
           Case{{"torchrun", "--nnodes=4", "x.py"},
                "gets --nnodes 4, and the step has 2 nodes: it waits for nodes that do not come"},
           Case{{"python", "-m", "torch.distributed.run", "--nnodes", "1", "x.py"},
                "gets --nnodes 1, and the step has 2 nodes: the others have no place"},
       }) {
    auto warnings = launch_warnings({c.command, 2, 2}, {}, torchrun);
    ASSERT_EQ(warnings.size(), 1u) << testing::PrintToString(c.command);
    EXPECT_NE(warnings[0].find(c.part), std::string::npos) << warnings[0];
  }
  for (const char* nodes : {"--nnodes=2", "--nnodes=1:4", "--nnodes=$SLURM_NNODES", "--max=3"})
    EXPECT_TRUE(launch_warnings({{"torchrun", nodes, "x.py"}, 2, 2}, {}, torchrun).empty());
  LaunchFacts component{{"torchrun", "--nnodes=4", "x.py"}, 2, 2};
  EXPECT_TRUE(launch_warnings(component, {{"SLURM_HET_SIZE", "2"}}, torchrun).empty());
  EXPECT_TRUE(launch_warnings(component, {}, *parse_options("torch")).empty());
  EXPECT_TRUE(launch_warnings({{"torchrun", "--standalone", "x"}, 1, 1}, {}, torchrun).empty());
}

TEST(LaunchWarnings, OtherLaunchersThatDoNotKnowOfTheOtherNodes) {
  const auto torch = *parse_options("torch"), torchrun = *parse_options("torchrun");
  struct Case {
    std::vector<std::string> command;
    const Options& options;
    const char* text;
  };
  const std::vector<std::string> accelerate{"accelerate", "launch", "x.py", "--config=a"};
  const std::vector<std::string> deepspeed{"deepspeed", "x.py", "--deepspeed"};
  const char* alone = "'deepspeed' without --hostfile trains on each node alone; ";
  for (const Case& c : {
           Case{accelerate, torch, "each node alone where it starts several processes; "},
           Case{accelerate, torchrun, "each node alone where it starts one process, and meets at"},
           Case{deepspeed, torch, alone},
           Case{deepspeed, torchrun, alone},
       }) {
    auto warnings = launch_warnings({c.command, 2, 2}, {}, c.options);
    ASSERT_EQ(warnings.size(), 1u) << c.text;
    EXPECT_NE(warnings[0].find(c.text), std::string::npos) << warnings[0];
    EXPECT_TRUE(launch_warnings({c.command, 1, 1}, {}, c.options).empty());
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"accelerate", "launch", "--num_machines=2", "x.py"},
        {"accelerate", "launch", "--num-machines", "2", "x.py"},
        {"bash", "-c", "accelerate launch --config_file a.yaml x.py"},
        {"deepspeed", "--hostfile=hosts", "x.py"},
        {"mpirun", "-n", "2", "x"}})
    EXPECT_TRUE(launch_warnings({command, 2, 2}, {}, torch).empty()) << command[0];
}

TEST(LaunchWarnings, ALauncherWithSeveralTasksOnANode) {
  LaunchFacts launch{{"torchrun", "train.py"}, 2, 4};
  auto warnings = launch_warnings(launch, {}, {});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("the command is the launcher 'torchrun', and 4 tasks on 2 nodes"), 0u);
  launch.tasks = 2;
  launch.command = {"deepspeed", "--hostfile", "hosts", "train.py"};
  EXPECT_TRUE(launch_warnings(launch, {}, verbose).empty());
  EXPECT_TRUE(launch_warnings({{"python", "train.py"}, 2, 4}, {}, verbose).empty());
}

TEST(LaunchWarnings, OneNodeRankForAllNodes) {
  for (const auto& options : {*parse_options("torch"), *parse_options("torchrun")})
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"torchrun", "--nnodes=2", "--node_rank=0", "x.py"},
          {"python", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", "0", "x.py"}}) {
      auto warnings = launch_warnings({command, 2, 2}, {}, options);
      ASSERT_EQ(warnings.size(), 1u);
      EXPECT_NE(warnings[0].find("gets --node_rank 0 on all 2 nodes"), std::string::npos);
      EXPECT_TRUE(launch_warnings({command, 1, 1}, {}, options).empty());
    }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"torchrun", "--nnodes=2", "x.py", "--node_rank=0"},
        {"torchrun", "--nnodes=2", "--node_rank=0", "--rdzv_backend=c10d", "x.py"},
        {"torchrun", "--nnodes=2", "--node_rank", "x.py"},
        {"torchrun", "--nnodes=2", "--node_rank=99999999999", "x.py"},
        {"bash", "-c", "torchrun --nnodes=2 --node_rank=$SLURM_NODEID x.py"}})
    EXPECT_TRUE(launch_warnings({command, 2, 2}, {}, {}).empty()) << command[2];
}

TEST(LaunchWarnings, AProxyForGrpcWhenAsked) {
  LaunchFacts launch{{"python", "train.py"}, 2, 4};
  Environment proxy{{"http_proxy", "http://proxy:3128"}};
  EXPECT_TRUE(launch_warnings(launch, proxy, {}).empty());
  auto warnings = launch_warnings(launch, proxy, verbose);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("http_proxy='http://proxy:3128' is set"), 0u);
  proxy["no_proxy"] = "10.0.0.0/8";
  EXPECT_TRUE(launch_warnings(launch, proxy, verbose).empty());
}

} // namespace
} // namespace dist_train
