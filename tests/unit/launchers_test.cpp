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
           Case{{"bash", "-c"}, ""},
       })
    EXPECT_EQ(launcher_in(c.command), c.launcher) << testing::PrintToString(c.command);
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

TEST(LaunchWarnings, ALauncherWithSeveralTasksOnANode) {
  LaunchFacts launch{{"torchrun", "train.py"}, 2, 4};
  auto warnings = launch_warnings(launch, {}, {});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("the command is the launcher 'torchrun', and 4 tasks on 2 nodes"), 0u);
  launch.tasks = 2;
  launch.command = {"deepspeed", "train.py"};
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
