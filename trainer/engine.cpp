// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/engine.h"

namespace dist_train {

// Unit 0 is the embedding, 1 to blocks() the blocks, final_unit() the rest.

at::Tensor Engine::forward(const Batch& batch, const Angles& angles,
                           std::vector<BlockSaved>* saved) {
  const auto& units = sharding_.units();
  sharding_.prefetch(0);
  sharding_.prefetch(1);
  auto x = embed(slot_tensor(units[0].slots[0], sharding_.gathered(0)), batch.tokens);
  for (size_t unit = 1; unit <= blocks(); ++unit) {
    const auto weights = block_tensors(units[unit], sharding_.gathered(unit));
    sharding_.prefetch(unit + 1);
    x = block_forward(model_, weights, angles, batch.segments, x, checkpointing_,
                      saved ? &(*saved)[unit - 1] : nullptr);
  }
  return x;
}

HeadTensors Engine::head(const at::Tensor& embedding, const at::Tensor& final) const {
  const auto& units = sharding_.units();
  const auto& slots = units[final_unit()].slots;
  return {slot_tensor(slots[0], final),
          model_.tied ? slot_tensor(units[0].slots[0], embedding) : slot_tensor(slots[1], final)};
}

HeadTensors Engine::head_weights() {
  return head(model_.tied ? sharding_.gathered(0) : at::Tensor(), sharding_.gathered(final_unit()));
}

at::Tensor Engine::train_head(const Batch& batch, const at::Tensor& x, at::Tensor& loss) {
  const auto weights = head_weights();
  sharding_.prefetch(blocks());
  const auto [final, accumulate] = sharding_.gradient(final_unit());
  auto gradients = head(model_.tied ? sharding_.gradient(0).flat : at::Tensor(), final);
  auto dx = head_loss(model_, weights, &gradients, accumulate, x, batch.labels, loss);
  sharding_.reduce(final_unit());
  return dx;
}

void Engine::train(const Batch& batch, at::Tensor& loss) {
  const auto& units = sharding_.units();
  const Angles turns = angles(model_, batch.segments, batch.tokens.device());
  std::vector<BlockSaved> saved(blocks());
  auto dx = train_head(batch, forward(batch, turns, &saved), loss);
  for (size_t unit = blocks(); unit > 0; --unit) {
    const auto weights = block_tensors(units[unit], sharding_.gathered(unit));
    if (unit > 1)
      sharding_.prefetch(unit - 1);
    const auto [flat, accumulate] = sharding_.gradient(unit);
    auto gradients = block_tensors(units[unit], flat);
    block_backward(model_, weights, gradients, accumulate, turns, batch.segments,
                   std::move(saved[unit - 1]), dx);
    sharding_.reduce(unit);
  }
  const auto [flat, accumulate] = sharding_.gradient(0);
  auto table = slot_tensor(units[0].slots[0], flat);
  // A tied head has written there already.
  embed_backward(dx, batch.tokens, table, accumulate || model_.tied);
  sharding_.reduce(0);
}

void Engine::evaluate(const Batch& batch, at::Tensor& loss) {
  const Angles turns = angles(model_, batch.segments, batch.tokens.device());
  const auto x = forward(batch, turns, nullptr);
  head_loss(model_, head_weights(), nullptr, false, x, batch.labels, loss);
}

at::Tensor Engine::logits(const Batch& batch) {
  const Angles turns = angles(model_, batch.segments, batch.tokens.device());
  const auto x = forward(batch, turns, nullptr);
  return head_logits(model_, head_weights(), x);
}

} // namespace dist_train
