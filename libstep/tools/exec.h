// SPDX-License-Identifier: BSD-3-Clause
// dist-train exec: the plan of --dist-train where the plugin is not installed.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// words: "--" (may be left out), a program, its arguments. The ranks find each other as step_open()
// does, agree on ports that rank 0 holds, and become the program, with the variables that the
// plugin would have set; this process is then the program. Under the plugin or torchrun, which have
// made such a plan, the program just runs. Returns only on failure, with the exit code: 127 where
// there is no such program, 126 where it cannot be run, else a step_err_t; the error is on standard
// error.
int run_exec(const std::vector<std::string>& words);

} // namespace dist_train
