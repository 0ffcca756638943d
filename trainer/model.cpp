// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace dist_train {
namespace {

// Logits held at once are about this many elements.
constexpr int64_t kLogitElements = int64_t(1) << 24;

Attention attention_shape(const ModelConfig& model, int64_t window) {
  return {model.heads, model.kv_heads, model.head_dim, window};
}

// y = x W^T + b: weights are stored [out, in].
at::Tensor project(const at::Tensor& x, const Linear& layer) {
  return layer.bias.defined() ? at::addmm(layer.bias, x, layer.weight.t())
                              : at::mm(x, layer.weight.t());
}

// The same, added to `residual`.
at::Tensor project_onto(const at::Tensor& residual, const at::Tensor& x, const Linear& layer) {
  auto y = at::addmm(residual, x, layer.weight.t());
  return layer.bias.defined() ? y.add_(layer.bias) : y;
}

void write_gradient(at::Tensor& gradient, const at::Tensor& value, bool accumulate) {
  if (accumulate)
    gradient.add_(value);
  else
    gradient.copy_(value);
}

void weight_gradient(at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x,
                     bool accumulate) {
  if (accumulate)
    gradient.addmm_(dy.t(), x);
  else
    at::mm_out(gradient, dy.t(), x);
}

// The gradients of a layer whose output's gradient is dy.
void layer_gradients(Linear& gradients, const at::Tensor& dy, const at::Tensor& x,
                     bool accumulate) {
  weight_gradient(gradients.weight, dy, x, accumulate);
  if (gradients.bias.defined())
    write_gradient(gradients.bias, dy.sum(0, false, at::kFloat), accumulate);
}

// The tensors of one part, which have no gap between them, as one; undefined when there are none.
at::Tensor part_tensor(const Unit& unit, Part part, const at::Tensor& flat) {
  const auto is_part = [&](const Slot& slot) { return slot.part == part; };
  const auto first = std::find_if(unit.slots.begin(), unit.slots.end(), is_part);
  if (first == unit.slots.end())
    return {};
  auto shape = first->shape;
  for (auto slot = first + 1; slot != unit.slots.end() && is_part(*slot); ++slot)
    shape[0] += slot->shape[0];
  return flat.narrow(0, first->offset, c10::multiply_integers(shape)).view(shape);
}

// The norms of the queries' and keys' heads, each head of a token being one row.
struct HeadNorm {
  at::Tensor weight;
  int64_t begin, heads; // the heads' columns in a row of qkv

  at::Tensor columns(const at::Tensor& qkv) const {
    return qkv.narrow(1, begin, heads * weight.size(0));
  }
  at::Tensor rows(const at::Tensor& qkv) const {
    return columns(qkv).reshape({-1, weight.size(0)});
  }
};
std::array<HeadNorm, 2> head_norms(const ModelConfig& model, const BlockTensors& block) {
  return {HeadNorm{block.q_norm, 0, model.heads},
          HeadNorm{block.k_norm, model.heads * model.head_dim, model.kv_heads}};
}

// From a projection's qkv to what attends: heads normed where the model does so, and turned, in
// place.
void finish_heads_(const ModelConfig& model, const BlockTensors& weights, const Angles& angles,
                   at::Tensor& qkv) {
  if (model.qk_norm)
    for (const HeadNorm& norm : head_norms(model, weights)) {
      auto columns = norm.columns(qkv);
      columns.copy_(
          rms_norm(norm.rows(qkv), norm.weight, model.rms_norm_eps).y.view(columns.sizes()));
    }
  rotate_(qkv, angles.cosine, angles.sine, model.heads + model.kv_heads, 1);
}

// Turns dqkv, the gradient of what attended, into that of the projection's qkv, in place.
void finish_heads_backward_(const ModelConfig& model, const BlockTensors& weights,
                            BlockTensors& gradients, bool accumulate, const Angles& angles,
                            const at::Tensor& qkv, at::Tensor& dqkv) {
  rotate_(dqkv, angles.cosine, angles.sine, model.heads + model.kv_heads, -1);
  if (!model.qk_norm)
    return;
  auto dweights = head_norms(model, gradients);
  for (size_t i = 0; const HeadNorm& norm : head_norms(model, weights)) {
    const auto x = norm.rows(qkv);
    const auto scale = rms_norm(x, norm.weight, model.rms_norm_eps).scale;
    auto dx = at::zeros_like(x);
    rms_norm_backward(norm.rows(dqkv), x, norm.weight, scale, dx, dweights[i++].weight, accumulate);
    auto columns = norm.columns(dqkv);
    columns.copy_(dx.view(columns.sizes()));
  }
}

at::Tensor inverse_frequencies(const ModelConfig& model) {
  const auto exponents = at::arange(0, model.head_dim, 2, at::kFloat).div_(double(model.head_dim));
  auto frequencies = at::pow(model.rope_theta, exponents).reciprocal_();
  if (!model.llama3_rope)
    return frequencies.div_(model.rope_factor);
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
  const auto part = [&](Part which) { return part_tensor(unit, which, flat); };
  return {part(Part::input_norm),
          {part(Part::qkv), part(Part::qkv_bias)},
          part(Part::q_norm),
          part(Part::k_norm),
          {part(Part::attention_out), part(Part::attention_out_bias)},
          part(Part::inner_norm),
          {part(Part::gate_up), part(Part::gate_up_bias)},
          {part(Part::down), part(Part::down_bias)},
          unit.window};
}

namespace {

// Fills saved from its x on, up to `attended`.
void attention_half(const ModelConfig& model, const BlockTensors& weights, const Angles& angles,
                    const std::vector<Segment>& segments, BlockSaved& saved) {
  auto normed = rms_norm(saved.x, weights.input_norm, model.rms_norm_eps);
  saved.input_scale = std::move(normed.scale);
  saved.qkv = project(normed.y, weights.qkv);
  auto finished = model.qk_norm ? saved.qkv.clone() : saved.qkv;
  finish_heads_(model, weights, angles, finished);
  saved.attended = attend(finished, segments, attention_shape(model, weights.window));
}

// Fills the rest.
void inner_half(const ModelConfig& model, const BlockTensors& weights, BlockSaved& saved) {
  saved.inner = project_onto(saved.x, saved.attended.out, weights.attention_out);
  auto normed = rms_norm(saved.inner, weights.inner_norm, model.rms_norm_eps);
  saved.inner_scale = std::move(normed.scale);
  saved.gate_up = project(normed.y, weights.gate_up);
}

} // namespace

at::Tensor block_forward(const ModelConfig& model, const BlockTensors& weights,
                         const Angles& angles, const std::vector<Segment>& segments,
                         const at::Tensor& x, Checkpointing checkpointing, BlockSaved* saved) {
  BlockSaved all;
  all.x = x;
  attention_half(model, weights, angles, segments, all);
  inner_half(model, weights, all);
  auto y = project_onto(all.inner, swiglu(all.gate_up), weights.down);
  if (!saved)
    return y;
  saved->x = x;
  if (checkpointing == Checkpointing::block)
    return y;
  if (checkpointing == Checkpointing::none) {
    *saved = std::move(all);
  } else {
    saved->input_scale = std::move(all.input_scale);
    saved->qkv = std::move(all.qkv);
    saved->attended = std::move(all.attended);
  }
  return y;
}

void block_backward(const ModelConfig& model, const BlockTensors& weights, BlockTensors& gradients,
                    bool accumulate, const Angles& angles, const std::vector<Segment>& segments,
                    BlockSaved saved, at::Tensor& dy) {
  if (!saved.qkv.defined())
    attention_half(model, weights, angles, segments, saved);
  if (!saved.gate_up.defined())
    inner_half(model, weights, saved);
  { // y = inner + down(swiglu(gate_up(norm(inner))))
    const auto dactivated = at::mm(dy, weights.down.weight);
    auto& dgate_up = saved.gate_up;
    const auto activated = swiglu_backward_(dactivated, dgate_up);
    layer_gradients(gradients.down, dy, activated, accumulate);
    const auto normed = rms_norm_again(saved.inner, weights.inner_norm, saved.inner_scale);
    layer_gradients(gradients.gate_up, dgate_up, normed, accumulate);
    rms_norm_backward(at::mm(dgate_up, weights.gate_up.weight), saved.inner, weights.inner_norm,
                      saved.inner_scale, dy, gradients.inner_norm, accumulate);
    saved.gate_up.reset();
  }
  { // inner = x + attention_out(attend(finish_heads(qkv(norm(x)))))
    layer_gradients(gradients.attention_out, dy, saved.attended.out, accumulate);
    auto turned = saved.qkv;
    if (model.qk_norm)
      finish_heads_(model, weights, angles, turned = saved.qkv.clone());
    auto dqkv = attend_backward(at::mm(dy, weights.attention_out.weight), turned, saved.attended,
                                segments, attention_shape(model, weights.window));
    turned.reset();
    finish_heads_backward_(model, weights, gradients, accumulate, angles, saved.qkv, dqkv);
    const auto normed = rms_norm_again(saved.x, weights.input_norm, saved.input_scale);
    layer_gradients(gradients.qkv, dqkv, normed, accumulate);
    rms_norm_backward(at::mm(dqkv, weights.qkv.weight), saved.x, weights.input_norm,
                      saved.input_scale, dy, gradients.input_norm, accumulate);
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
  return at::mm(rms_norm(x, weights.norm, model.rms_norm_eps).y, weights.head.t());
}

} // namespace dist_train
