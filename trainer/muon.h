// SPDX-License-Identifier: BSD-3-Clause
// Muon for the matrices of blocks, numerically torch.optim.Muon with adjust_lr_fn
// "match_rms_adamw", so that a learning rate and weight decay found for AdamW serve both.
// Everything else (embedding, head, norms, biases) is AdamW's.
#pragma once

#include "trainer/config.h"
#include "trainer/sharding.h"

#include <vector>

namespace dist_train {

// Whether Muon, where it is chosen, updates this tensor.
bool is_for_muon(const Sharding& sharding, size_t unit, const Slot& slot);

class Muon {
public:
  Muon(Sharding& sharding, const Config& config);

  // One step on the matrices, whose gradients in the shards are divided by `divisor` first.
  // Collective: a matrix is orthogonalised by every rank that holds a part of it, from the whole.
  void step(double learning_rate, double divisor);

private:
  // A block's matrices, as far as they are in this rank's shard.
  struct Block {
    size_t unit;
    at::Tensor momentum; // fp32, as the shard
    at::Tensor update;   // bf16, as the shard: what is orthogonalised
    at::Tensor whole;    // every rank's update where memory is shared, else undefined
  };
  const at::Tensor& gathered_into(const Block& block, size_t turn);
  void apply(const Block& block, const at::Tensor& updates, double learning_rate);

  Sharding& sharding_;
  const Config& config_;
  std::vector<Block> blocks_;
  at::Tensor gathered_[2]; // by turns, where memory is not shared
};

} // namespace dist_train
