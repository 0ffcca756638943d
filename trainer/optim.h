// SPDX-License-Identifier: BSD-3-Clause
// The optimizer step on the flat fp32 shards. AdamW is numerically torch.optim.AdamW; vectors
// (norms) do not decay, as in Hugging Face's Trainer.
#pragma once

#include "trainer/config.h"
#include "trainer/muon.h"
#include "trainer/sharding.h"

#include <optional>
#include <vector>

namespace dist_train {

class AdamW {
public:
  // skips_matrices: leaves those to Muon that are for it.
  AdamW(Sharding& sharding, const Config& config, bool skips_matrices);

  // One step. Gradients in the shards are divided by `divisor` first.
  void step(double learning_rate, double divisor);

private:
  // Part of a shard whose elements are updated alike; views.
  struct Range {
    at::Tensor master, parameters, gradient, average, square;
    bool decays;
  };
  void add_ranges(size_t unit, bool skips_matrices);
  void update_on_cpu(const Range& range, double learning_rate, double divisor) const;
  void update_by_aten(double learning_rate, double divisor);

  Sharding& sharding_;
  const Config& config_;
  std::vector<Range> ranges_;
  int64_t step_ = 0;
};

// What the configuration chooses.
class Optimizer {
public:
  Optimizer(Sharding& sharding, const Config& config);
  // One step. Gradients in the shards are divided by `divisor` first; collective.
  void step(double learning_rate, double divisor);

private:
  Sharding& sharding_;
  std::optional<Muon> muon_;
  AdamW adamw_;
};

// This rank's part of the squared norm of the gradient; those of all ranks sum up to it.
double squared_norm(Sharding& sharding);

} // namespace dist_train
