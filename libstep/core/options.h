// SPDX-License-Identifier: BSD-3-Clause
// The grammar of --dist-train, SLURM_DIST_TRAIN and the plugstack line:
//   WORD[,WORD...]   WORD is a mode, a strategy, a flag or KEY=VALUE; a list in a value uses '+'.
// One table (options.cpp) holds the words; parser, canonical text and help all read it.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dist_train {

inline constexpr std::size_t kMaxOptionText = 2048; // bytes

// Whose needs a step serves and whose limits it is checked against.
enum class Mode { kTorch, kLightning, kDeepspeed, kMegatron, kJax, kTorchrun, kRay, kOff, kHelp };
enum class Strategy { kFsdp, kHsdp, kZero2, kDdp };

// Whether a MASTER_ADDR or MASTER_PORT that the user exported stays.
enum class EnvRule { kOurs, kKeep };
enum class LimitRule { kKeep, kRaise };
// Where a task runs: on its own cores next to its GPU (where Slurm has bound it already, on those),
// on such cores in any case, on all of its GPU's NUMA node, on its own cores anywhere, or where
// Slurm put it. kNone: no placement at all, not even of memory and NICs.
enum class BindRule { kAuto, kGpu, kNuma, kCore, kKeep, kNone };
// Which GPUs a task sees: all of the step's on the node, its own at the position LOCAL_RANK, or its
// own only.
enum class GpuRule { kShared, kOwn };
// Nodes that do not fit together: end the step where it could only fail, warn, or say nothing.
enum class CheckRule { kEnd, kWarn, kOff };

struct PortRange {
  std::uint16_t low;
  std::uint16_t high; // inclusive
  bool operator==(const PortRange&) const = default;
};

// OMP_NUM_THREADS: from the mask, untouched, or a number.
struct OmpRule {
  enum Kind { kAuto, kKeep, kFixed } kind = kAuto;
  std::uint32_t threads = 0;
  bool operator==(const OmpRule&) const = default;
};

// What was said; a member without a value was not mentioned.
struct Options {
  std::optional<Mode> mode;
  std::optional<Strategy> strategy;
  std::optional<bool> verbose;
  std::optional<bool> dry_run; // shows the table, too
  std::optional<bool> oversubscribe;
  std::optional<BindRule> bind;
  std::optional<GpuRule> gpus;
  std::optional<std::string> nic;      // "auto", "none", or names and prefixes joined by '+'
  std::optional<std::string> topology; // file of hwloc's that stands for the node; "%n" its name
  std::optional<EnvRule> env;
  std::optional<PortRange> port;
  std::optional<std::string> iface; // "auto", "none", or names, prefixes and subnets joined by '+'
  std::optional<OmpRule> omp;
  std::optional<std::uint32_t> nproc; // ranks that torchrun starts on a node; 0: auto
  std::optional<std::uint32_t> wait_seconds;
  std::optional<bool> kill;
  std::optional<LimitRule> limits;
  std::optional<CheckRule> checks;
  bool operator==(const Options&) const = default;
};

// Where a text comes from: `help` and `dry-run` count on a command line only, `default=` and
// `checks=` on the plugstack line only (where no bare word sets a mode). kResolved is what srun
// tells the nodes, where all that may be said anywhere can stand.
enum class OptionSource { kCommandLine, kEnvironment, kPlugstack, kResolved };

// Empty text, and the "(null)" that some Slurm releases hand on for a missing argument, say
// nothing. Unknown, repeated and contradicting words, bytes outside the alphabet and texts longer
// than kMaxOptionText are refused; Error::caret shows where, and the nearest right word.
Result<Options> parse_options(std::string_view text,
                              OptionSource source = OptionSource::kCommandLine);

// The one text that means the same; parse_options(canonical_text(o), kResolved) == o.
std::string canonical_text(const Options& options);

// What `over` says, and what `under` says about the rest.
Options merge(const Options& over, const Options& under);

// Whether the mode, where one is said, makes something of the step's tasks.
bool is_on(const Options& options);

// Whether the tasks, one a node, are no ranks themselves but start those of their node.
bool launches_ranks(Mode mode);
inline bool launches_ranks(const Options& options) {
  return options.mode && launches_ranks(*options.mode);
}

// Whether iface= says which interfaces.
bool names_interfaces(const Options& options);

// Grammar, modes, keys and the variables a task gets, for a terminal.
std::string options_help();

const char* to_text(Mode mode);
const char* to_text(Strategy strategy);
// The same backwards, nothing for other texts.
std::optional<Mode> mode_of(std::string_view word);
std::optional<Strategy> strategy_of(std::string_view word);

// Values where nothing was said.
inline constexpr PortRange kDefaultPorts{23000, 27999};
inline constexpr std::uint32_t kDefaultWaitSeconds = 300;

} // namespace dist_train
