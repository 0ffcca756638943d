// SPDX-License-Identifier: BSD-3-Clause
// Runs a program and takes what it says. No shell is involved.
#pragma once

#include "libstep/core/result.h"

#include <chrono>
#include <string>
#include <vector>

namespace dist_train {

// words: a program, looked up in PATH, and its arguments. Returns what it wrote to both its
// outputs, without white space at the end, when it ends with 0. Otherwise an error with that text
// in it; one that takes longer than `limit` is killed. Some 4 KiB are kept. The program begins with
// no signal blocked and an empty standard input. Any thread may call this.
Result<std::string> run_command(const std::vector<std::string>& words,
                                std::chrono::milliseconds limit);

} // namespace dist_train
