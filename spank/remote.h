// SPDX-License-Identifier: BSD-3-Clause
// The plugin in slurmstepd. Nothing fails, and root parses nothing of the user's, before task_init,
// which runs as the user in the forked child of one task.
#pragma once

#include "spank/export.h"

namespace dist_train::remote {

// Keeps the option's text (at most kMaxOptionText bytes) for the case that srun sent no canonical
// one. As root, with text from anybody.
void keep_option(const char* text) noexcept;

// As root in the task's child: looks at the machine before a container hides it. Never fails.
void task_init_privileged(spank_t spank);

// Makes the task a rank of the step. Says what went wrong and ends the task's child with exit code
// 1 if it cannot: an `optional` plugin's return code would be ignored.
void task_init(spank_t spank);

} // namespace dist_train::remote
