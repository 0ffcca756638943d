// SPDX-License-Identifier: BSD-3-Clause
// Work on other people's files with other people's code: in a process of its own, so that what
// breaks there breaks nothing here.
#pragma once

#include "libstep/core/result.h"

#include <functional>
#include <string>

namespace dist_train {

// Runs `work` in a forked child that may take `seconds`, as much CPU time and 2 GiB of address
// space, and returns its result; an error where the child ends without one, or hangs even in the
// kernel.
Result<std::string> in_child(const std::function<Result<std::string>()>& work,
                             unsigned seconds = 10);

} // namespace dist_train
