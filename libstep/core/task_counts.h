// SPDX-License-Identifier: BSD-3-Clause
// Slurm's tasks-per-node lists: "4,1(x2)" is 4, 1, 1.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dist_train {

inline constexpr std::uint32_t kMaxTasks = 1u << 20; // of a step

// One count per node, in the order of the step's host list. Refuses zero repeats, more than
// kMaxHosts nodes and more than kMaxTasks tasks in all.
Result<std::vector<std::uint32_t>> parse_task_counts(std::string_view text);

} // namespace dist_train
