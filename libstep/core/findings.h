// SPDX-License-Identifier: BSD-3-Clause
// What the nodes of a step say about themselves -> what a user should know before the program
// fails on it, slows down or hangs. Pure: srun's side prints it.
#pragma once

#include "libstep/core/node_facts.h"
#include "libstep/core/options.h"

#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// One line for the user, with the nodes and the value seen, and what to do about it. A fatal one
// is certain to fail in the program; it can as well end here.
struct Finding {
  std::string text;
  std::string hint;
  bool fatal = false;
};

// At most one finding of a kind, and none where nothing is wrong: differences between the nodes
// (the most frequent value is right), and what one rank more than a node allows will run into.
// Values that are not known (0, "") are never wrong. `world_size` is the number of ranks,
// `srun_plugin_version` the plugin's where srun runs ("" if not known). With `oversubscribe` tasks
// share GPUs on purpose; the mode tells what is certain to fail.
std::vector<Finding> findings(const std::vector<NodeFacts>& nodes, std::uint32_t world_size,
                              std::string_view srun_plugin_version, bool oversubscribe = false,
                              Mode mode = Mode::kTorch);

} // namespace dist_train
