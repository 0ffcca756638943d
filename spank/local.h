// SPDX-License-Identifier: BSD-3-Clause
// The plugin in srun, sbatch and salloc: checks the option, decides what the step does, and in srun
// runs the rendezvous.
#pragma once

#include "libstep/core/launchers.h"

#include <string>
#include <vector>

namespace dist_train::local {

// All return 0, or -1 when the command must not go on. `in_srun` is false in sbatch and salloc.
int init(bool in_srun, const std::vector<std::string>& plugstack);
int option(const char* text);
int init_post_opt(bool in_srun);
int local_user_init(const LaunchFacts& launch);

// Whether this command's user asked for the step, as far as is known by now.
bool asked();
void exit();

} // namespace dist_train::local
