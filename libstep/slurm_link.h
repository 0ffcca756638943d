// SPDX-License-Identifier: BSD-3-Clause
// What a running program asks of Slurm about its job: through srun's thread where our srun listens,
// which works from containers, else by Slurm's own commands.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "libstep/core/srun_request.h"
#include "libstep/identity.h"

namespace dist_train {

// The text that Slurm answered. Takes some 45 s at the very most, and ends in an error soon after
// nobody wants the answer any more.
Result<std::string> ask_slurm(const Identity& identity, SrunWish wish,
                              const std::stop_token& unwanted = {});

// Milliseconds until the job's time limit, 0 at least; kNoTimeLimit where there is none or Slurm
// does not say. Does not throw.
std::int64_t time_left_ms(const Identity& identity, const std::stop_token& unwanted) noexcept;

} // namespace dist_train
