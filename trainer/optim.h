// SPDX-License-Identifier: BSD-3-Clause
// AdamW on the flat fp32 shards, numerically torch.optim.AdamW. Vectors (norms) do not decay, as in
// Hugging Face's Trainer.
#pragma once

#include "trainer/config.h"
#include "trainer/sharding.h"

#include <vector>

namespace dist_train {

class AdamW {
public:
  AdamW(Sharding& sharding, const Config& config);

  // This rank's part of the squared norm of the gradient.
  double squared_norm() const;

  // One step. Gradients in the shards are divided by `divisor` first.
  void step(double learning_rate, double divisor);

private:
  // Ranges of the shards that are updated alike: views, one entry a range.
  struct Ranges {
    std::vector<at::Tensor> parameters, gradients, averages, squares, steps;
  };
  void add_ranges(size_t unit, const at::Tensor& averages, const at::Tensor& squares);
  void update(Ranges& ranges, double learning_rate, double weight_decay,
              const at::Tensor& divisor) const;

  Sharding& sharding_;
  const Config& config_;
  Ranges decaying_, plain_;
  at::Tensor step_; // fp32, one element
};

} // namespace dist_train
