// SPDX-License-Identifier: BSD-3-Clause
// What the plugin says to people.
#pragma once

#include "libstep/core/result.h"

#include <string_view>

namespace dist_train {

// "error: dist-train: ..." through Slurm: srun's stderr, or from a task's child the user's terminal
// by way of slurmstepd. Lines of the caret and the hint follow.
void log_error(const Error& error);

// "dist-train: TEXT" on this process's stderr, in one write. For what is not an error: Slurm passes
// on nothing below error level from a node.
void tell_user(std::string_view text);

// From a task's child: waits until slurmstepd has taken what was said, half a second at most. Who
// ends sooner may be heard of after its step is gone, or never.
void let_slurm_read();

// The text as it is on stderr, in one write as far as the kernel takes it.
void write_to_user(std::string_view text);

} // namespace dist_train
