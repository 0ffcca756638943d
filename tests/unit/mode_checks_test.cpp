// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/mode_checks.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

constexpr const char* kNothing = "";

std::string text_of(const std::optional<Error>& refused) {
  if (!refused)
    return "";
  EXPECT_TRUE(refused->hint.empty() && refused->message.find('\n') == std::string::npos)
      << "a refusal is one line";
  return refused->message;
}

TEST(RefusedLaunch, ByNumbersOfTasks) {
  struct Case {
    const char* options;
    std::uint32_t nodes, tasks;
    const char* refused;
  };
  for (const Case& c : {
           Case{"torch", 2, 5, kNothing},
           Case{"torchrun", 2, 2, kNothing},
           Case{"torchrun", 1, 2,
                "mode torchrun wants one task a node, not 2 tasks on 1 node; give srun "
                "--ntasks-per-node=1"},
           Case{"ray", 2, 4,
                "mode ray wants one task a node, not 4 tasks on 2 nodes; give srun "
                "--ntasks-per-node=1"},
           Case{"ray", 0, 4, kNothing},
           Case{"lightning", 2, 4, kNothing},
           Case{"lightning", 3, 2, kNothing}, // Slurm takes two nodes
           Case{"lightning", 2, 3,
                "mode lightning wants equally many tasks on each node, not 3 tasks on 2 nodes; "
                "give srun --ntasks-per-node=N"},
           Case{"megatron,gpus=own", 2, 2, kNothing},
           Case{"jax,gpus=own", 1, 2, kNothing},
           Case{"megatron,gpus=own", 1, 2,
                "mode megatron takes the GPU at the position LOCAL_RANK, and with gpus=own a task "
                "sees its own only; leave gpus=own away"},
       })
    EXPECT_EQ(text_of(refused_launch(*parse_options(c.options), {{}, c.nodes, c.tasks})), c.refused)
        << c.options << ' ' << c.nodes << ' ' << c.tasks;
}

TEST(RefusedLayout, ByWhoRunsWhere) {
  struct Case {
    const char *options, *layout, *command, *refused;
  };
  for (const Case& c : {
           Case{"torch", "a=0,2;b=1,3", "--tensor-model-parallel-size=4", kNothing},
           Case{"torchrun", "a=0;b=1", "", kNothing},
           Case{"torchrun", "a=0;b=1-2", "",
                "mode torchrun wants one task a node, not 2 tasks on b; give srun "
                "--ntasks-per-node=1"},
           Case{"lightning", "a=0,2;b=1,3", "", kNothing},
           Case{"lightning", "a=0-3;b=4;c=5", "",
                "mode lightning wants equally many tasks on each node, not 4 tasks on a and 1 on "
                "b; give srun --ntasks-per-node=N"},
           Case{"megatron", "a=0-1;b=2", "pretrain_gpt.py", kNothing},
           Case{"megatron", "a=0,2;b=1,3", "pretrain_gpt.py",
                "mode megatron wants neighbouring ranks on one node, and a has ranks 0,2; give "
                "srun --distribution=block, or say --tensor-model-parallel-size in its command "
                "line where that is 1"},
           Case{"megatron", "a=0,2;b=1,3", "x --tensor-model-parallel-size 1", kNothing},
           Case{"megatron", "a=0-3;b=4-7", "x --tensor-model-parallel-size 4", kNothing},
           Case{"megatron", "a=0-3;b=4-7", "x --tensor-model-parallel-size=8",
                "mode megatron wants each tensor-parallel group on one node, and with "
                "--tensor-model-parallel-size 8 rank 3 is on a, rank 4 on b; make the tasks of "
                "each node a multiple of it, in a block layout (--distribution=block)"},
           Case{"megatron", "a=0,2;b=1,3", "x --tensor-model-parallel-size 4",
                "mode megatron wants each tensor-parallel group on one node, and with "
                "--tensor-model-parallel-size 4 rank 1 is on b, rank 2 on a; make the tasks of "
                "each node a multiple of it, in a block layout (--distribution=block)"},
           Case{"megatron", "a=0-1;b=2", "x --tensor-model-parallel-size 2",
                "mode megatron wants a number of tasks that --tensor-model-parallel-size 2 "
                "divides, not 3; give srun another -n"},
           Case{"megatron", "a=0;b=1-3", "x --tensor-model-parallel-size 2",
                "mode megatron wants each tensor-parallel group on one node, and with "
                "--tensor-model-parallel-size 2 rank 0 is on a, rank 1 on b; make the tasks of "
                "each node a multiple of it, in a block layout (--distribution=block)"},
           Case{"megatron", "a=0-1;b=2-3",
                "x --tensor-model-parallel-size 2 --expert-tensor-parallel-size 4",
                "mode megatron wants each tensor-parallel group on one node, and with "
                "--expert-tensor-parallel-size 4 rank 1 is on a, rank 2 on b; make the tasks of "
                "each node a multiple of it, in a block layout (--distribution=block)"},
           Case{"deepspeed", "a=0,2;b=1", "", kNothing},
           Case{"deepspeed,gpus=own", "a=0;b=1", "", kNothing},
           Case{"deepspeed,gpus=own", "a=0;b=1-2", "",
                "mode deepspeed takes the GPU at the position LOCAL_RANK, and with gpus=own a "
                "task sees its own only; leave gpus=own away"},
       }) {
    const auto options = *parse_options(c.options);
    EXPECT_EQ(text_of(refused_layout(options, *parse_layout(c.layout), {"python", c.command})),
              c.refused)
        << c.options << ' ' << c.layout << ' ' << c.command;
    // What can be refused is looked at.
    EXPECT_TRUE(c.refused == std::string(kNothing) ||
                checks_layout(options.mode.value_or(Mode::kTorch)))
        << c.options;
  }
  EXPECT_FALSE(checks_layout(Mode::kTorch));
}

} // namespace
} // namespace dist_train
