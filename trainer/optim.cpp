// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/optim.h"

#include "trainer/kernels_cpu.h"

#include <algorithm>
#include <cmath>

namespace dist_train {

AdamW::AdamW(Sharding& sharding, const Config& config, bool skips_matrices)
    : sharding_(sharding), config_(config) {
  for (size_t unit = 0; unit < sharding.units().size(); ++unit)
    add_ranges(unit, skips_matrices);
}

// Neighbouring tensors that are treated alike make one range.
void AdamW::add_ranges(size_t unit, bool skips_matrices) {
  Shard& shard = sharding_.shard(unit);
  const auto& slots = sharding_.units()[unit].slots;
  const int64_t size = sharding_.shard_size(unit);
  const int64_t begin = size * sharding_.comm().rank();
  const auto skips = [&](const Slot& slot) {
    return skips_matrices && is_for_muon(sharding_, unit, slot);
  };
  for (size_t i = 0; i < slots.size();) {
    size_t last = i;
    while (last + 1 < slots.size() && slots[last + 1].decays == slots[i].decays &&
           skips(slots[last + 1]) == skips(slots[i]))
      ++last;
    const int64_t from = std::clamp(slots[i].offset - begin, int64_t(0), size);
    const int64_t to = std::clamp(slots[last].offset + slots[last].size - begin, int64_t(0), size);
    if (from < to && !skips(slots[i])) {
      const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, from, to - from); };
      const auto zeros = at::zeros({to - from}, shard.master.options());
      ranges_.push_back({part(shard.master), part(shard.parameters), part(shard.gradient), zeros,
                         at::zeros_like(zeros), slots[i].decays});
    }
    i = last + 1;
  }
}

void AdamW::step(double learning_rate, double divisor) {
  ++step_;
  if (sharding_.comm().device().is_cpu())
    for (const Range& range : ranges_)
      update_on_cpu(range, learning_rate, divisor);
  else
    update_by_aten(learning_rate, divisor);
}

void AdamW::update_on_cpu(const Range& range, double learning_rate, double divisor) const {
  const cpu::AdamWStep step{float(1 / divisor),
                            float(learning_rate),
                            float(config_.adam_beta1),
                            float(config_.adam_beta2),
                            float(config_.adam_epsilon),
                            range.decays ? float(config_.weight_decay) : 0,
                            float(1 - std::pow(config_.adam_beta1, double(step_))),
                            float(1 - std::pow(config_.adam_beta2, double(step_)))};
  auto* master = range.master.mutable_data_ptr<float>();
  const auto* gradient = range.gradient.const_data_ptr<float>();
  auto* average = range.average.mutable_data_ptr<float>();
  auto* square = range.square.mutable_data_ptr<float>();
  auto* parameters = sharding_.type() == at::kBFloat16
                         ? static_cast<cpu::BFloat16*>(range.parameters.data_ptr())
                         : nullptr;
  at::parallel_for(0, range.master.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    cpu::adamw(master + begin, gradient + begin, average + begin, square + begin,
               parameters ? parameters + begin : nullptr, end - begin, step);
  });
}

void AdamW::update_by_aten(double learning_rate, double divisor) {
  const auto options = at::TensorOptions().device(sharding_.comm().device());
  const auto step = at::full({}, double(step_), options), scale = at::full({}, divisor, options);
  for (const bool decays : {true, false}) {
    std::vector<at::Tensor> masters, gradients, averages, squares, steps;
    for (const Range& range : ranges_) {
      if (range.decays != decays)
        continue;
      masters.push_back(range.master);
      gradients.push_back(range.gradient);
      averages.push_back(range.average);
      squares.push_back(range.square);
      steps.push_back(step);
    }
    if (!masters.empty())
      at::_fused_adamw_(masters, gradients, averages, squares, {}, steps, learning_rate,
                        config_.adam_beta1, config_.adam_beta2, decays ? config_.weight_decay : 0.0,
                        config_.adam_epsilon, false, false, scale);
  }
  if (sharding_.type() != at::kFloat)
    for (const Range& range : ranges_)
      range.parameters.copy_(range.master);
}

Optimizer::Optimizer(Sharding& sharding, const Config& config)
    : sharding_(sharding), adamw_(sharding, config, config.optim == "muon") {
  if (config.optim == "muon")
    muon_.emplace(sharding, config);
}

void Optimizer::step(double learning_rate, double divisor) {
  if (muon_)
    muon_->step(learning_rate, divisor);
  adamw_.step(learning_rate, divisor);
  sharding_.parameters_changed();
}

double squared_norm(Sharding& sharding) {
  if (!sharding.first_replica())
    return 0;
  double sum = 0;
  std::vector<at::Tensor> gradients;
  for (size_t unit = 0; unit < sharding.units().size(); ++unit) {
    const at::Tensor& gradient = sharding.shard(unit).gradient;
    if (gradient.is_cpu())
      sum += cpu::squared_norm(gradient.const_data_ptr<float>(), gradient.numel());
    else
      gradients.push_back(gradient);
  }
  if (!gradients.empty())
    sum = at::stack(at::_foreach_norm(gradients, 2)).to(at::kDouble).square().sum().item<double>();
  return sum;
}

} // namespace dist_train
