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

  // This rank's part of the squared norm of the gradient; those of all ranks sum up to it.
  double squared_norm() const;

  // One step. Gradients in the shards are divided by `divisor` first.
  void step(double learning_rate, double divisor);

private:
  // Part of a shard whose elements are updated alike; views.
  struct Range {
    at::Tensor master, parameters, gradient, average, square;
    bool decays;
  };
  void add_ranges(size_t unit);
  void update_on_cpu(const Range& range, double learning_rate, double divisor) const;
  void update_by_aten(double learning_rate, double divisor);

  Sharding& sharding_;
  const Config& config_;
  std::vector<Range> ranges_;
  int64_t step_ = 0;
};

} // namespace dist_train
