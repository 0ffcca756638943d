// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/optim.h"

#include <algorithm>

namespace dist_train {

AdamW::AdamW(Sharding& sharding, const Config& config)
    : sharding_(sharding), config_(config),
      step_(at::zeros({}, at::TensorOptions().device(sharding.comm().device()))) {
  for (size_t unit = 0; unit < sharding.units().size(); ++unit) {
    const auto& master = sharding.shard(unit).master;
    add_ranges(unit, at::zeros_like(master), at::zeros_like(master));
  }
}

// Neighbouring tensors that are treated alike make one range.
void AdamW::add_ranges(size_t unit, const at::Tensor& averages, const at::Tensor& squares) {
  Shard& shard = sharding_.shard(unit);
  const auto& slots = sharding_.units()[unit].slots;
  const int64_t size = sharding_.shard_size(unit);
  const int64_t begin = size * sharding_.comm().rank();
  for (size_t i = 0; i < slots.size();) {
    size_t last = i;
    while (last + 1 < slots.size() && slots[last + 1].decays == slots[i].decays)
      ++last;
    const int64_t from = std::clamp(slots[i].offset - begin, int64_t(0), size);
    const int64_t to = std::clamp(slots[last].offset + slots[last].size - begin, int64_t(0), size);
    if (from < to) {
      Ranges& ranges = slots[i].decays ? decaying_ : plain_;
      ranges.parameters.push_back(shard.master.narrow(0, from, to - from));
      ranges.gradients.push_back(shard.gradient.narrow(0, from, to - from));
      ranges.averages.push_back(averages.narrow(0, from, to - from));
      ranges.squares.push_back(squares.narrow(0, from, to - from));
      ranges.steps.push_back(step_);
    }
    i = last + 1;
  }
}

double AdamW::squared_norm() const {
  std::vector<at::Tensor> gradients;
  for (size_t unit = 0; unit < sharding_.units().size(); ++unit)
    gradients.push_back(sharding_.shard(unit).gradient);
  return at::stack(at::_foreach_norm(gradients, 2)).to(at::kDouble).square().sum().item<double>();
}

void AdamW::step(double learning_rate, double divisor) {
  step_.add_(1);
  const auto scale = at::full({}, divisor, step_.options());
  update(decaying_, learning_rate, config_.weight_decay, scale);
  update(plain_, learning_rate, 0, scale);
  if (sharding_.type() != at::kFloat)
    for (size_t unit = 0; unit < sharding_.units().size(); ++unit)
      sharding_.shard(unit).parameters.copy_(sharding_.shard(unit).master);
  sharding_.parameters_changed();
}

void AdamW::update(Ranges& ranges, double learning_rate, double weight_decay,
                   const at::Tensor& divisor) const {
  if (ranges.parameters.empty())
    return;
  at::_fused_adamw_(ranges.parameters, ranges.gradients, ranges.averages, ranges.squares, {},
                    ranges.steps, learning_rate, config_.adam_beta1, config_.adam_beta2,
                    weight_decay, config_.adam_epsilon, false, false, divisor);
}

} // namespace dist_train
