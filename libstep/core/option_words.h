// SPDX-License-Identifier: BSD-3-Clause
// The words of --dist-train: the one table behind parser, canonical text and help.
#pragma once

#include "libstep/core/options.h"

#include <array>

namespace dist_train {

enum class Key {
  kVerbose,
  kDryRun,
  kOversubscribe,
  kMode,
  kStrategy,
  kBind,
  kGpus,
  kNic,
  kTopology,
  kEnv,
  kPort,
  kIface,
  kOmp,
  kNproc,
  kWait,
  kKill,
  kLimits,
  kChecks,
  kDefault
};

// A bare word: sets a mode or a strategy, or is a flag.
struct WordRow {
  std::string_view word;
  Key key;
  Mode mode;
  Strategy strategy;
  const char* help;
  std::optional<bool> Options::*flag = nullptr; // what a flag sets
};

struct KeyRow {
  std::string_view name;
  Key key;
  const char* values;
  const char* help;
  bool plugstack_only = false;
  const char* rule = ""; // what an error says beside the values
};

inline constexpr std::array kWords{
    WordRow{"torch",
            Key::kMode,
            Mode::kTorch,
            {},
            "DDP, FSDP, HF Trainer, TRL, PEFT, Accelerate (default)"},
    WordRow{"on", Key::kMode, Mode::kTorch, {}, "the same as torch"},
    WordRow{"lightning",
            Key::kMode,
            Mode::kLightning,
            {},
            "torch, and SLURM_NTASKS_PER_NODE; equally many tasks on each node"},
    WordRow{"deepspeed",
            Key::kMode,
            Mode::kDeepspeed,
            {},
            "torch, and what its launcher would set (CROSS_*, LOCAL_SIZE)"},
    WordRow{"megatron",
            Key::kMode,
            Mode::kMegatron,
            {},
            "torch; neighbouring ranks share a node, tensor-parallel groups too"},
    WordRow{
        "jax", Key::kMode, Mode::kJax, {}, "torch, with a port for JAX's coordinator in any case"},
    WordRow{"torchrun",
            Key::kMode,
            Mode::kTorchrun,
            {},
            "one task a node: `srun torchrun train.py` needs no argument"},
    WordRow{"ray",
            Key::kMode,
            Mode::kRay,
            {},
            "one task a node: address and number of nodes for `ray symmetric-run`"},
    WordRow{
        "off", Key::kMode, Mode::kOff, {}, "change nothing; beats what sbatch or the site says"},
    WordRow{"help", Key::kMode, Mode::kHelp, {}, "print this and exit"},
    WordRow{"fsdp", Key::kStrategy, {}, Strategy::kFsdp, "fully sharded data parallel"},
    WordRow{"hsdp",
            Key::kStrategy,
            {},
            Strategy::kHsdp,
            "fully sharded within a node, replicated across nodes"},
    WordRow{"zero2",
            Key::kStrategy,
            {},
            Strategy::kZero2,
            "gradients and optimizer state sharded, parameters replicated"},
    WordRow{"ddp",
            Key::kStrategy,
            {},
            Strategy::kDdp,
            "replicated data parallel (dist-trainer: optimizer state sharded)"},
    WordRow{
        "verbose", Key::kVerbose, {}, {}, "table of all ranks on srun's stderr", &Options::verbose},
    WordRow{"dry-run",
            Key::kDryRun,
            {},
            {},
            "print that table and end before the program starts",
            &Options::dry_run},
    WordRow{"oversubscribe",
            Key::kOversubscribe,
            {},
            {},
            "tasks share GPUs where there are more tasks",
            &Options::oversubscribe},
};

inline constexpr std::array kKeys{
    KeyRow{"mode", Key::kMode, "torch|on|lightning|deepspeed|megatron|jax|torchrun|ray|off|help",
           "long form of the modes above"},
    KeyRow{"strategy", Key::kStrategy, "fsdp|hsdp|zero2|ddp", "long form of the strategies above"},
    KeyRow{"bind", Key::kBind, "auto|gpu|numa|core|keep|none",
           "where a task runs; auto: near its GPU, unless Slurm has bound it"},
    KeyRow{"gpus", Key::kGpus, "shared|own",
           "a task sees the GPUs of all tasks of its node, or its own only"},
    KeyRow{"nic", Key::kNic, "auto|none|NAME[+NAME...]",
           "RDMA devices: names or beginnings of them; ^ excludes", false, " of at most 256 bytes"},
    KeyRow{"env", Key::kEnv, "ours|keep", "whether your own MASTER_ADDR and MASTER_PORT stay"},
    KeyRow{"port", Key::kPort, "LO-HI",
           "ports for the rendezvous where Slurm reserves none (23000-27999)", false,
           " with LO from 1024 on and at least 32 ports"},
    KeyRow{"iface", Key::kIface, "auto|none|NAME[+NAME...]",
           "network interface: names, prefixes or subnets; ^ excludes", false,
           " of at most 512 bytes"},
    KeyRow{"omp", Key::kOmp, "auto|keep|N",
           "OMP_NUM_THREADS; auto: cores of the task, if you set nothing"},
    KeyRow{"nproc", Key::kNproc, "auto|N",
           "mode torchrun: ranks of a node; auto: its GPUs, else the task's cores"},
    KeyRow{"wait", Key::kWait, "SECONDS",
           "how long after the last arrival a step that lacks nodes is ended (300)", false,
           " from 1 to 86400"},
    KeyRow{"kill", Key::kKill, "yes|no", "end the step when one rank fails"},
    KeyRow{"limits", Key::kLimits, "keep|raise", "raise: soft limit of open files to the hard one"},
    KeyRow{"topology", Key::kTopology, "/FILE",
           "hwloc's XML of nodes that hide their own; `%n` is the node's name", true,
           " with an absolute path of at most 255 bytes"},
    KeyRow{"checks", Key::kChecks, "end|warn|off",
           "what happens to a step whose nodes do not fit together", true},
    KeyRow{"default", Key::kDefault, "torch|on|off", "mode of steps that say nothing", true},
};

std::string_view name_of(Key key);

// Parses `value` into the member that `key` (no mode, strategy or flag) stands for; false when it
// is not one of the possible values.
bool set_value(Options& options, Key key, std::string_view value);

// The value as set_value() reads it, or nothing when it was not said (or is a mode, a strategy or a
// flag).
std::optional<std::string> value_text(const Options& options, Key key);

} // namespace dist_train
