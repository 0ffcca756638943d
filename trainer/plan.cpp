// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/plan.h"

#include <algorithm>
#include <cmath>

namespace dist_train {
namespace {

std::string count(int64_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// Bounds every product below; far above any real run.
constexpr double kMostRows = 1e15;

} // namespace

Result<Plan> make_plan(const Config& config, int64_t rows, int world_size) {
  const double wanted = double(config.per_device_train_batch_size) * double(world_size) *
                        double(config.gradient_accumulation_steps);
  if (wanted > kMostRows || double(rows) * config.num_train_epochs > kMostRows)
    return Error{"the run would have more than 1e15 rows",
                 "lower per_device_train_batch_size, gradient_accumulation_steps or "
                 "num_train_epochs"};
  const int64_t rows_per_pass = config.per_device_train_batch_size * world_size;
  Plan plan;
  plan.micro_steps = config.gradient_accumulation_steps;
  plan.rows_per_step = rows_per_pass * plan.micro_steps;
  if (const int64_t global = config.global_train_batch_size; global > 0) {
    if (global % rows_per_pass != 0)
      return Error{"global_train_batch_size " + std::to_string(global) + " is no multiple of " +
                       count(rows_per_pass, "row") + " (" + count(world_size, "rank") + " x " +
                       "per_device_train_batch_size " +
                       std::to_string(config.per_device_train_batch_size) + ")",
                   "choose a multiple, or another number of ranks"};
    plan.micro_steps = global / rows_per_pass;
    plan.rows_per_step = global;
    if (config.gradient_accumulation_steps != 1 &&
        config.gradient_accumulation_steps != plan.micro_steps)
      return Error{"gradient_accumulation_steps " +
                       std::to_string(config.gradient_accumulation_steps) +
                       " contradicts global_train_batch_size " + std::to_string(global) +
                       ", which makes it " + std::to_string(plan.micro_steps),
                   "give one of the two"};
  }
  if (rows < plan.rows_per_step)
    return Error{config.train_file + " gives " + count(rows, "row") + " of " +
                     std::to_string(config.block_size) + " tokens, but one step takes " +
                     std::to_string(plan.rows_per_step) + " (" + count(world_size, "rank") + ")",
                 "give more text, a smaller block_size or batch, or fewer ranks"};
  plan.steps = config.max_steps > 0
                   ? config.max_steps
                   : std::max<int64_t>(1, int64_t(double(rows) * config.num_train_epochs /
                                                  double(plan.rows_per_step)));
  plan.warmup_steps = config.warmup_steps > 0
                          ? config.warmup_steps
                          : int64_t(std::ceil(double(plan.steps) * config.warmup_ratio));
  return plan;
}

int64_t first_position(const Config& config, const Plan& plan, int64_t step, int64_t micro_step,
                       int rank, int world_size) {
  const int64_t batch = config.per_device_train_batch_size;
  return step * plan.rows_per_step + (micro_step * world_size + rank) * batch;
}

} // namespace dist_train
