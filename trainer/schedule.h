// SPDX-License-Identifier: BSD-3-Clause
// Learning rate of each optimizer step, as transformers.get_scheduler() has it. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace dist_train {

// Factor of the learning rate for optimizer step `step` (from 0) of `steps`. name: linear, cosine,
// constant or constant_with_warmup (checked by the configuration).
double schedule_factor(const std::string& name, int64_t step, int64_t steps, int64_t warmup_steps);

} // namespace dist_train
