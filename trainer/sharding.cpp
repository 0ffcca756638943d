// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/sharding.h"

namespace dist_train {
namespace {

// Makes a buffer of at least `size` elements; units that share it have asked before.
void reserve(at::Tensor& flat, int64_t size, const at::TensorOptions& options) {
  if (!flat.defined() || flat.numel() < size)
    flat = at::zeros({size}, options);
}

} // namespace

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
    if (!alone())
      reserve(gather_buffers_[buffer_of(i, strategy)].flat, units_[i].size, parameters);
    if (direct())
      continue;
    GradientBuffer& buffer = gradient_buffers_[buffer_of(i, Strategy::fsdp)];
    reserve(buffer.flat, units_[i].size, parameters);
    if (alone())
      continue;
    if (type == at::kFloat)
      buffer.wire = buffer.flat;
    else
      reserve(buffer.wire, units_[i].size, master);
    reserve(buffer.received, shard_size(i), master);
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
  if (alone())
    return add_to_shard(unit, buffer.flat);
  if (type_ != at::kFloat)
    buffer.wire.copy_(buffer.flat);
  buffer.holder = int64_t(unit);
  buffer.work = comm_.reduce_scatter(buffer.received, buffer.wire);
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
  add_to_shard(size_t(buffer.holder), buffer.received);
  buffer.holder = -1;
}

void Sharding::add_to_shard(size_t unit, const at::Tensor& gradient) {
  if (has_gradient_[unit])
    shards_[unit].gradient.add_(gradient);
  else
    shards_[unit].gradient.copy_(gradient);
  has_gradient_[unit] = true;
}

} // namespace dist_train
