// SPDX-License-Identifier: BSD-3-Clause
// Whether the MASTER_ADDR and MASTER_PORT of the user's own that env=keep leaves alone, in mode
// torchrun PET_MASTER_ADDR and PET_MASTER_PORT before them, can work:
// frameworks find out by trying for half an hour.
#pragma once

#include "libstep/core/environment.h"
#include "libstep/core/result.h"

#include <chrono>
#include <string>
#include <vector>

namespace dist_train {

// Looks where `changes`, made for `plan` on `inherited`, leave one of the two; at most for `limit`.
// An error where no program could use them: each node's first task says it. Warnings, rank 0's,
// where one might, as with a server of the user's own.
Result<std::vector<std::string>> check_kept_endpoint(const TaskPlan& plan, const EnvPlan& changes,
                                                     const Environment& inherited,
                                                     std::chrono::seconds limit);

} // namespace dist_train
