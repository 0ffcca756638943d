// SPDX-License-Identifier: BSD-3-Clause
// One pass of the whole model over a batch, with parameters gathered unit by unit, each while the
// one before is computed.
#pragma once

#include "trainer/model.h"
#include "trainer/sharding.h"

namespace dist_train {

class Engine {
public:
  Engine(const ModelConfig& model, Sharding& sharding, Checkpointing checkpointing)
      : model_(model), sharding_(sharding), checkpointing_(checkpointing) {}

  // Forward and backward. The loss summed over the batch's labels is added to `loss` (fp64, one
  // element, on the device), the gradient of that sum goes to the shards. Collective: every rank
  // calls it at the same time, each with its own rows.
  void train(const Batch& batch, at::Tensor& loss);

  // Forward only; collective like train().
  void evaluate(const Batch& batch, at::Tensor& loss);

  // Logits of all tokens, [T, vocabulary]; collective.
  at::Tensor logits(const Batch& batch);

private:
  size_t blocks() const { return size_t(model_.layers); }
  size_t final_unit() const { return blocks() + 1; }
  at::Tensor forward(const Batch& batch, const Angles& angles, std::vector<BlockSaved>* saved);
  HeadTensors head(const at::Tensor& embedding, const at::Tensor& final) const;
  HeadTensors head_weights();
  at::Tensor train_head(const Batch& batch, const at::Tensor& x, at::Tensor& loss);

  const ModelConfig& model_;
  Sharding& sharding_;
  Checkpointing checkpointing_;
};

} // namespace dist_train
