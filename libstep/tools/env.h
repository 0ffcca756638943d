// SPDX-License-Identifier: BSD-3-Clause
// dist-train env: who this process is, as step_open() would find it, and the variables behind it.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// Prints to standard output, errors to standard error; the exit code. Connects to nothing.
int run_env(const std::vector<std::string>& arguments);

} // namespace dist_train
