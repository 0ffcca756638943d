// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/sharding.h"

namespace dist_train {

Sharding::Sharding(std::vector<Unit> units, Comm& comm, Strategy strategy, at::ScalarType type)
    : units_(std::move(units)), comm_(comm), strategy_(strategy), type_(type),
      shards_(units_.size()), has_gradient_(units_.size(), false), gather_buffers_(units_.size()),
      gradient_buffers_(units_.size()) {
  const auto master = at::TensorOptions().dtype(at::kFloat).device(comm.device());
  const auto parameters = master.dtype(type);
  for (size_t i = 0; i < units_.size(); ++i) {
    Shard& shard = shards_[i];
    shard.master = at::zeros({shard_size(i)}, master);
    shard.parameters = type == at::kFloat ? shard.master : at::zeros({shard_size(i)}, parameters);
    shard.gradient = at::zeros({shard_size(i)}, master);
    if (GatherBuffer& buffer = gather_buffers_[buffer_of(i, strategy)];
        !alone() && !buffer.flat.defined())
      buffer.flat = at::zeros({units_[i].size}, parameters);
    if (direct())
      continue;
    GradientBuffer& buffer = gradient_buffers_[buffer_of(i, Strategy::fsdp)];
    if (buffer.flat.defined())
      continue;
    buffer.flat = at::zeros({units_[i].size}, parameters);
    if (!alone())
      buffer.scratch = comm.reduction_scratch(units_[i].size, type);
  }
}

// Blocks have one size. With fsdp they take turns on the buffers of the first two; the embedding
// and the final unit have their own.
size_t Sharding::buffer_of(size_t unit, Strategy strategy) const {
  const bool block = unit > 0 && unit + 1 < units_.size();
  return strategy == Strategy::fsdp && block ? 1 + (unit - 1) % 2 : unit;
}

void Sharding::prefetch(size_t unit) {
  if (alone())
    return;
  GatherBuffer& buffer = gather_buffers_[buffer_of(unit, strategy_)];
  if (buffer.holder == int64_t(unit))
    return;
  buffer.work.wait();
  buffer.holder = int64_t(unit);
  buffer.work = comm_.all_gather(buffer.flat, shards_[unit].parameters);
}

const at::Tensor& Sharding::gathered(size_t unit) {
  if (alone())
    return shards_[unit].parameters;
  prefetch(unit);
  GatherBuffer& buffer = gather_buffers_[buffer_of(unit, strategy_)];
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
  GradientBuffer& buffer = gradient_buffers_[buffer_of(unit, Strategy::fsdp)];
  arrive(buffer);
  return {buffer.flat, false};
}

void Sharding::reduce(size_t unit) {
  if (direct()) {
    has_gradient_[unit] = true;
    return;
  }
  GradientBuffer& buffer = gradient_buffers_[buffer_of(unit, Strategy::fsdp)];
  buffer.holder = int64_t(unit);
  if (!alone())
    buffer.work = comm_.reduce_scatter(buffer.flat, buffer.scratch);
}

void Sharding::finish_reductions() {
  for (GradientBuffer& buffer : gradient_buffers_)
    arrive(buffer);
}

void Sharding::begin_step() { has_gradient_.assign(units_.size(), false); }

void Sharding::arrive(GradientBuffer& buffer) {
  if (buffer.holder < 0)
    return;
  buffer.work.wait();
  const auto unit = size_t(std::exchange(buffer.holder, -1));
  comm_.add_reduced(alone() ? buffer.flat : buffer.scratch, shards_[unit].gradient,
                    has_gradient_[unit]);
  has_gradient_[unit] = true;
}

} // namespace dist_train
