// SPDX-License-Identifier: BSD-3-Clause
// What srun's command line and the user's environment give away before a step begins, and would
// show only as a hang or as "Address already in use". Pure.
#pragma once

#include "libstep/core/environment.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// A program's name without its folder.
std::string_view base_name(std::string_view path);

// The launcher that this command starts, such as "torchrun" or "accelerate launch"; "" if it starts
// none, or not in plain sight (a script). Looks through wrappers (env, numactl, apptainer exec), a
// shell's -c and python's -m.
std::string launcher_in(const std::vector<std::string>& command);

// Of such a name: torchrun, or the modules behind it.
bool is_torchrun(std::string_view launcher);

// The number that a command line gives this option ("--tensor-model-parallel-size 8", or with =),
// also inside a shell's -c; the last counts. 0: none in plain sight.
std::uint32_t number_argument(const std::vector<std::string>& command, std::string_view option);

// A step as srun knows it.
struct LaunchFacts {
  std::vector<std::string> command;
  std::uint32_t nodes = 0; // of the first component in a heterogeneous step
  std::uint32_t tasks = 0; // likewise
};

// One line for each thing that will not work: a launcher with several tasks on a node; one of
// several nodes that does not know of the other nodes, from its arguments or from mode torchrun, or
// is told otherwise than by the mode; the same --node_rank on all of them; with `verbose` also a
// proxy that gRPC, and so JAX, would send its rendezvous through.
std::vector<std::string> launch_warnings(const LaunchFacts& launch, const Environment& environment,
                                         const Options& options);

} // namespace dist_train
