// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/muon.h"

#include <algorithm>
#include <cmath>

namespace dist_train {
namespace {

constexpr double kMomentum = 0.95;
constexpr int kIterations = 5;

// The matrix with its singular values brought near one: a quintic Newton-Schulz iteration whose
// coefficients are steep at zero. In bf16, as its errors do not matter.
at::Tensor orthogonalised(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, kTiny = 1e-7;
  const bool tall = matrix.size(0) > matrix.size(1);
  auto x = tall ? matrix.t() : matrix;
  x = x / matrix.norm().clamp_min(kTiny);
  for (int i = 0; i < kIterations; ++i) {
    const auto gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return tall ? x.t() : x;
}

} // namespace

bool is_for_muon(const Sharding& sharding, size_t unit, const Slot& slot) {
  return unit > 0 && unit + 1 < sharding.units().size() && slot.shape.size() == 2;
}

Muon::Muon(Sharding& sharding, const Config& config) : sharding_(sharding), config_(config) {
  Comm& comm = sharding.comm();
  for (size_t unit = 1; unit + 1 < sharding.units().size(); ++unit) {
    const auto update = comm.buffer(sharding.shard_size(unit), at::kBFloat16);
    blocks_.push_back(
        {unit, at::zeros_like(sharding.shard(unit).gradient), update, comm.whole(update)});
    for (auto& buffer : gathered_)
      if (!blocks_.back().whole.defined() && !buffer.defined())
        buffer = at::zeros({sharding.units()[unit].size}, update.options());
  }
}

const at::Tensor& Muon::gathered_into(const Block& block, size_t turn) {
  return block.whole.defined() ? block.whole : gathered_[turn % 2];
}

void Muon::step(double learning_rate, double divisor) {
  for (Block& block : blocks_) { // Nesterov's momentum
    const auto gradient = sharding_.shard(block.unit).gradient / divisor;
    block.momentum.lerp_(gradient, 1 - kMomentum);
    block.update.copy_(at::lerp(gradient, block.momentum, kMomentum));
  }
  Pending next;
  const auto start = [&](size_t i) {
    if (i < blocks_.size())
      next = sharding_.comm().all_gather(gathered_into(blocks_[i], i), blocks_[i].update);
  };
  start(0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    next.wait();
    start(i + 1);
    apply(blocks_[i], gathered_into(blocks_[i], i), learning_rate);
  }
}

void Muon::apply(const Block& block, const at::Tensor& updates, double learning_rate) {
  Shard& shard = sharding_.shard(block.unit);
  const int64_t size = sharding_.shard_size(block.unit);
  const int64_t begin = size * sharding_.comm().rank();
  for (const Slot& slot : sharding_.units()[block.unit].slots) {
    const int64_t from = std::clamp(slot.offset - begin, int64_t(0), size);
    const int64_t to = std::clamp(slot.offset + slot.size - begin, int64_t(0), size);
    if (from >= to || !is_for_muon(sharding_, block.unit, slot))
      continue;
    const auto matrix = updates.narrow(0, slot.offset, slot.size).view(slot.shape);
    const auto direction =
        orthogonalised(matrix).reshape({-1}).narrow(0, begin + from - slot.offset, to - from);
    const double longer = double(std::max(slot.shape[0], slot.shape[1]));
    auto master = shard.master.narrow(0, from, to - from);
    master.mul_(1 - learning_rate * config_.weight_decay);
    master.add_(direction, -learning_rate * 0.2 * std::sqrt(longer));
    if (sharding_.type() != at::kFloat)
      shard.parameters.narrow(0, from, to - from).copy_(master);
  }
}

} // namespace dist_train
