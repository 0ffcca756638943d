// SPDX-License-Identifier: BSD-3-Clause
// dist-train plan: what each task of a node would get.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// Prints to standard output, errors to standard error; the exit code (2: wrong arguments, 1: the
// machine cannot be read).
int run_plan(const std::vector<std::string>& words);

} // namespace dist_train
