// SPDX-License-Identifier: BSD-3-Clause
// How many rows, micro-steps and steps a run has, and which rows each rank takes. Positions count
// rows over all epochs, so that every world size trains on the same rows in the same order. Pure.
#pragma once

#include "libstep/core/result.h"
#include "trainer/config.h"

#include <cstdint>

namespace dist_train {

struct Plan {
  int64_t rows_per_step = 0; // over all ranks
  int64_t micro_steps = 0;   // forward and backward passes of one optimizer step
  int64_t steps = 0;
  int64_t warmup_steps = 0;
};

// rows: packed rows of the training file.
Result<Plan> make_plan(const Config& config, int64_t rows, int world_size);

// First of the per_device_train_batch_size positions of a rank in one micro-step (from 0).
int64_t first_position(const Config& config, const Plan& plan, int64_t step, int64_t micro_step,
                       int rank, int world_size);

} // namespace dist_train
