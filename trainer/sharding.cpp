// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/sharding.h"

namespace dist_train {

Sharding::Sharding(std::vector<Unit> units, Links& links, Strategy strategy, at::ScalarType type,
                   int64_t passes)
    : units_(std::move(units)), comm_(*links.shards), replicas_(*links.replicas),
      strategy_(strategy), type_(type), passes_(passes), shards_(units_.size()),
      has_gradient_(units_.size(), false), gather_buffers_(units_.size()),
      gradient_buffers_(units_.size()) {
  const auto master = at::TensorOptions().dtype(at::kFloat).device(comm_.device());
  for (size_t i = 0; i < units_.size(); ++i) {
    Shard& shard = shards_[i];
    shard.parameters = comm_.buffer(shard_size(i), type);
    shard.master = type == at::kFloat ? shard.parameters : at::zeros({shard_size(i)}, master);
    shard.gradient = at::zeros({shard_size(i)}, master);
    if (auto whole = comm_.whole(shard.parameters); whole.defined()) {
      sees_parts_ = true;
      gather_buffers_[i].flat = std::move(whole);
    } else if (auto& flat = gather_buffers_[buffer_of(i, keeps_parameters())].flat;
               !flat.defined()) {
      flat = at::zeros({units_[i].size}, master.dtype(type));
    }
    if (direct())
      continue;
    GradientBuffer& buffer = gradient_buffers_[buffer_of(i, keeps_gradients())];
    if (buffer.flat.defined())
      continue;
    buffer.flat = comm_.buffer(units_[i].size, type);
    if (!alone())
      buffer.scratch = comm_.reduction_scratch(units_[i].size, type);
  }
}

// Blocks have one size. Where a unit has not its own, they take turns on the buffers of the first
// two; the embedding and the final unit always have their own.
size_t Sharding::buffer_of(size_t unit, bool own) const {
  const bool block = unit > 0 && unit + 1 < units_.size();
  return block && !own ? 1 + (unit - 1) % 2 : unit;
}

void Sharding::prefetch(size_t unit) {
  GatherBuffer& buffer = gather_buffers_[buffer_of(unit, keeps_parameters())];
  if (buffer.holder == int64_t(unit))
    return;
  buffer.work.wait();
  buffer.holder = int64_t(unit);
  buffer.work = comm_.all_gather(buffer.flat, shards_[unit].parameters);
}

const at::Tensor& Sharding::gathered(size_t unit) {
  prefetch(unit);
  GatherBuffer& buffer = gather_buffers_[buffer_of(unit, keeps_parameters())];
  buffer.work.wait();
  return buffer.flat;
}

void Sharding::parameters_changed() {
  for (GatherBuffer& buffer : gather_buffers_) {
    buffer.work.wait();
    buffer.holder = -1;
  }
}

Sharding::Gradient Sharding::gradient(size_t unit) {
  if (direct())
    return {shards_[unit].gradient, has_gradient_[unit]};
  GradientBuffer& buffer = gradient_buffers_[buffer_of(unit, keeps_gradients())];
  buffer.work.wait();
  return {buffer.flat, keeps_gradients() && pass_ > 0};
}

void Sharding::reduce(size_t unit) {
  GradientBuffer& buffer = gradient_buffers_[buffer_of(unit, keeps_gradients())];
  auto& sum = shards_[unit].gradient;
  if (alone() && !direct()) {
    if (has_gradient_[unit])
      sum.add_(buffer.flat);
    else
      sum.copy_(buffer.flat);
  } else if (!alone()) {
    if (keeps_gradients() && pass_ + 1 < passes_)
      return;
    buffer.work = comm_.reduce_scatter(buffer.flat, buffer.scratch, sum, has_gradient_[unit]);
  }
  has_gradient_[unit] = true;
}

void Sharding::begin_step() {
  pass_ = 0;
  has_gradient_.assign(units_.size(), false);
}

void Sharding::finish_reductions() {
  for (GradientBuffer& buffer : gradient_buffers_)
    buffer.work.wait();
  if (replicas_.world_size() > 1)
    for (Shard& shard : shards_)
      replicas_.all_reduce(shard.gradient);
}

} // namespace dist_train
