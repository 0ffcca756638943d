// SPDX-License-Identifier: BSD-3-Clause
// What the framework that a mode names cannot do with the step as it is, and would show later as a
// hang, as worlds of one or as sixteen tracebacks. Pure. The evidence is the mode that was named,
// numbers of tasks, their layout, and an argument in srun's command line; a script's inside is not
// looked into.
#pragma once

#include "libstep/core/launchers.h"
#include "libstep/core/options.h"
#include "libstep/core/rank_map.h"

#include <optional>
#include <string>
#include <vector>

namespace dist_train {

// Whether the mode's framework takes the GPU at the position LOCAL_RANK without looking how many
// there are. (Accelerate, JAX and torchtitan do look; of mode torch nobody can tell.)
bool takes_gpu_at_local_rank(Mode mode);

// From what srun's line says before anything is allocated. Numbers that are 0 are not known, and
// refuse nothing.
std::optional<Error> refused_launch(const Options& options, const LaunchFacts& launch);

// Whether refused_layout() can refuse anything; a large layout is not worth reading for nothing.
bool checks_layout(Mode mode);

// From who runs where. `command` is what the tasks run.
std::optional<Error> refused_layout(const Options& options, const RankMap& layout,
                                    const std::vector<std::string>& command);

} // namespace dist_train
