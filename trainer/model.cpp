// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model.h"

#include <cmath>
#include <numbers>

namespace dist_train {
namespace {

// Logits held at once are about this many elements.
constexpr int64_t kLogitElements = int64_t(1) << 24;

Attention attention_shape(const ModelConfig& model) {
  return {model.heads, model.kv_heads, model.head_dim};
}

// y = x W^T: weights are stored [out, in].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight) { return at::mm(x, weight.t()); }

void weight_gradient(at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x,
                     bool accumulate) {
  if (accumulate)
    gradient.addmm_(dy.t(), x);
  else
    at::mm_out(gradient, dy.t(), x);
}

// Matrix over `count` slots from the first one named so; they have no gap between them.
at::Tensor joined(const Unit& unit, size_t first, size_t count, const at::Tensor& flat) {
  int64_t rows = 0;
  for (size_t i = first; i < first + count; ++i)
    rows += unit.slots[i].shape[0];
  const int64_t columns = unit.slots[first].shape[1];
  return flat.narrow(0, unit.slots[first].offset, rows * columns).view({rows, columns});
}

at::Tensor inverse_frequencies(const ModelConfig& model) {
  const auto exponents = at::arange(0, model.head_dim, 2, at::kFloat).div_(double(model.head_dim));
  auto frequencies = at::pow(model.rope_theta, exponents).reciprocal_();
  if (!model.llama3_rope)
    return frequencies;
  // Long waves are stretched by the factor, short ones kept, those between blended.
  const Llama3Rope& rope = *model.llama3_rope;
  const double context = rope.original_max_position_embeddings;
  const auto waves = 2 * std::numbers::pi / frequencies;
  const auto blend = (context / waves - rope.low_freq_factor)
                         .div_(rope.high_freq_factor - rope.low_freq_factor)
                         .clamp_(0, 1);
  return (1 - blend) * frequencies / rope.factor + blend * frequencies;
}

} // namespace

Angles angles(const ModelConfig& model, const std::vector<Segment>& segments, at::Device device) {
  std::vector<at::Tensor> positions;
  for (const Segment& segment : segments)
    positions.push_back(at::arange(segment.length, at::kFloat));
  const auto turns = at::outer(at::cat(positions), inverse_frequencies(model)).to(device);
  return {turns.cos(), turns.sin()};
}

at::Tensor slot_tensor(const Slot& slot, const at::Tensor& flat) {
  return flat.narrow(0, slot.offset, slot.size).view(slot.shape);
}

BlockTensors block_tensors(const Unit& unit, const at::Tensor& flat) {
  // The order of block_unit() in layout.cpp.
  return {slot_tensor(unit.slots[0], flat), joined(unit, 1, 3, flat),
          slot_tensor(unit.slots[4], flat), slot_tensor(unit.slots[5], flat),
          joined(unit, 6, 2, flat),         slot_tensor(unit.slots[8], flat)};
}

at::Tensor block_forward(const ModelConfig& model, const BlockTensors& weights,
                         const Angles& angles, const std::vector<Segment>& segments,
                         const at::Tensor& x, BlockSaved* saved) {
  auto normed = rms_norm(x, weights.input_norm, model.rms_norm_eps);
  auto qkv = project(normed.y, weights.qkv);
  rotate_(qkv, angles.cosine, angles.sine, model.heads + model.kv_heads, 1);
  auto attended = attend(qkv, segments, attention_shape(model));
  const auto inner = at::addmm(x, attended.out, weights.attention_out.t());

  auto inner_normed = rms_norm(inner, weights.inner_norm, model.rms_norm_eps);
  auto gate_up = project(inner_normed.y, weights.gate_up);
  auto y = at::addmm(inner, swiglu(gate_up), weights.down.t());
  if (saved)
    *saved = {x,     normed.scale,       std::move(qkv),    std::move(attended),
              inner, inner_normed.scale, std::move(gate_up)};
  return y;
}

void block_backward(const ModelConfig& model, const BlockTensors& weights, BlockTensors& gradients,
                    bool accumulate, const Angles& angles, const std::vector<Segment>& segments,
                    BlockSaved saved, at::Tensor& dy) {
  { // y = inner + down(swiglu(gate_up(norm(inner))))
    const auto dactivated = at::mm(dy, weights.down);
    auto& dgate_up = saved.gate_up;
    const auto activated = swiglu_backward_(dactivated, dgate_up);
    weight_gradient(gradients.down, dy, activated, accumulate);
    const auto normed = rms_norm_again(saved.inner, weights.inner_norm, saved.inner_scale);
    weight_gradient(gradients.gate_up, dgate_up, normed, accumulate);
    rms_norm_backward(at::mm(dgate_up, weights.gate_up), saved.inner, weights.inner_norm,
                      saved.inner_scale, dy, gradients.inner_norm, accumulate);
    saved.gate_up.reset();
  }
  { // inner = x + attention_out(attend(rotate(qkv(norm(x)))))
    weight_gradient(gradients.attention_out, dy, saved.attended.out, accumulate);
    auto dqkv = attend_backward(at::mm(dy, weights.attention_out), saved.qkv, saved.attended,
                                segments, attention_shape(model));
    rotate_(dqkv, angles.cosine, angles.sine, model.heads + model.kv_heads, -1);
    const auto normed = rms_norm_again(saved.x, weights.input_norm, saved.input_scale);
    weight_gradient(gradients.qkv, dqkv, normed, accumulate);
    rms_norm_backward(at::mm(dqkv, weights.qkv), saved.x, weights.input_norm, saved.input_scale, dy,
                      gradients.input_norm, accumulate);
  }
}

at::Tensor embed(const at::Tensor& table, const at::Tensor& tokens) {
  return table.index_select(0, tokens);
}

void embed_backward(const at::Tensor& dx, const at::Tensor& tokens, at::Tensor& dtable,
                    bool accumulate) {
  if (!accumulate)
    dtable.zero_();
  dtable.index_add_(0, tokens, dx);
}

at::Tensor head_loss(const ModelConfig& model, const HeadTensors& weights, HeadTensors* gradients,
                     bool accumulate, const at::Tensor& x, const at::Tensor& labels,
                     at::Tensor& loss) {
  const auto normed = rms_norm(x, weights.norm, model.rms_norm_eps);
  const int64_t count = x.size(0);
  const int64_t step = std::max<int64_t>(16, kLogitElements / model.vocab_size);
  auto buffer = at::empty({std::min(step, count), model.vocab_size}, x.options());
  at::Tensor dnormed;
  if (gradients)
    dnormed = at::empty_like(normed.y);
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t length = std::min(step, count - begin);
    const auto rows = normed.y.narrow(0, begin, length);
    auto logits = buffer.narrow(0, 0, length);
    at::mm_out(logits, rows, weights.head.t());
    cross_entropy_(logits, labels.narrow(0, begin, length), loss, gradients != nullptr);
    if (!gradients)
      continue;
    weight_gradient(gradients->head, logits, rows, accumulate || begin > 0);
    auto part = dnormed.narrow(0, begin, length);
    at::mm_out(part, logits, weights.head);
  }
  if (!gradients)
    return {};
  auto dx = at::zeros_like(x);
  rms_norm_backward(dnormed, x, weights.norm, normed.scale, dx, gradients->norm, accumulate);
  return dx;
}

at::Tensor head_logits(const ModelConfig& model, const HeadTensors& weights, const at::Tensor& x) {
  return project(rms_norm(x, weights.norm, model.rms_norm_eps).y, weights.head);
}

} // namespace dist_train
