// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dist_train {

double schedule_factor(const std::string& name, int64_t step, int64_t steps, int64_t warmup_steps) {
  if (name == "constant")
    return 1;
  if (step < warmup_steps)
    return double(step) / double(std::max<int64_t>(1, warmup_steps));
  if (name == "constant_with_warmup")
    return 1;
  const double rest = double(std::max<int64_t>(1, steps - warmup_steps));
  if (name == "linear")
    return std::max(0.0, double(steps - step) / rest);
  const double progress = double(step - warmup_steps) / rest; // cosine
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

} // namespace dist_train
