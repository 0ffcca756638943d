// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/layout.h"

#include <optional>

namespace dist_train {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
};

// The tensors of one part, without a gap.
struct Group {
  Part part;
  std::vector<Tensor> tensors;
};

Unit make_unit(std::string label, const std::vector<Group>& groups, int world_size) {
  Unit unit{std::move(label), {}};
  for (const auto& [part, tensors] : groups) {
    unit.size = round_up(unit.size, kAlignment);
    for (const Tensor& tensor : tensors) {
      Slot slot{tensor.name, tensor.shape, unit.size, 1, tensor.shape.size() > 1, part};
      for (int64_t extent : tensor.shape)
        slot.size *= extent;
      unit.size += slot.size;
      unit.slots.push_back(std::move(slot));
    }
  }
  unit.size = round_up(unit.size, kShardAlignment * world_size);
  return unit;
}

// A linear layer's weights and, where it has them, their biases.
struct Linear {
  const char* name;
  int64_t outputs;
};
void add_linear(std::vector<Group>& groups, const std::string& prefix, Part weight,
                std::optional<Part> bias, const std::vector<Linear>& layers, int64_t inputs) {
  Group weights{weight, {}}, biases{weight, {}};
  for (const Linear& layer : layers) {
    weights.tensors.push_back({prefix + layer.name + ".weight", {layer.outputs, inputs}});
    biases.tensors.push_back({prefix + layer.name + ".bias", {layer.outputs}});
  }
  groups.push_back(std::move(weights));
  if (!bias)
    return;
  biases.part = *bias;
  groups.push_back(std::move(biases));
}

Unit block_unit(const ModelConfig& model, int64_t index, int world_size) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const int64_t hidden = model.hidden_size, inner = model.intermediate_size;
  const int64_t queries = model.heads * model.head_dim, keys = model.kv_heads * model.head_dim;
  const auto when = [](bool there, Part part) {
    return there ? std::optional(part) : std::nullopt;
  };
  std::vector<Group> groups;
  const auto add_norm = [&](Part part, const char* name, int64_t size) {
    groups.push_back({part, {{prefix + name + ".weight", {size}}}});
  };
  add_norm(Part::input_norm, "input_layernorm", hidden);
  add_linear(groups, prefix + "self_attn.", Part::qkv, when(model.qkv_bias, Part::qkv_bias),
             {{"q_proj", queries}, {"k_proj", keys}, {"v_proj", keys}}, hidden);
  if (model.qk_norm) {
    add_norm(Part::q_norm, "self_attn.q_norm", model.head_dim);
    add_norm(Part::k_norm, "self_attn.k_norm", model.head_dim);
  }
  add_linear(groups, prefix + "self_attn.", Part::attention_out,
             when(model.attention_out_bias, Part::attention_out_bias), {{"o_proj", hidden}},
             queries);
  add_norm(Part::inner_norm, "post_attention_layernorm", hidden);
  add_linear(groups, prefix + "mlp.", Part::gate_up, when(model.mlp_bias, Part::gate_up_bias),
             {{"gate_proj", inner}, {"up_proj", inner}}, hidden);
  add_linear(groups, prefix + "mlp.", Part::down, when(model.mlp_bias, Part::down_bias),
             {{"down_proj", hidden}}, inner);
  Unit unit = make_unit("block " + std::to_string(index), groups, world_size);
  unit.window = model.windows.empty() ? 0 : model.windows[size_t(index)];
  return unit;
}

} // namespace

std::vector<Unit> model_units(const ModelConfig& model, int world_size) {
  const std::vector<int64_t> table{model.vocab_size, model.hidden_size};
  std::vector<Unit> units;
  units.push_back(make_unit(
      "embedding", {{Part::embedding, {{"model.embed_tokens.weight", table}}}}, world_size));
  for (int64_t i = 0; i < model.layers; ++i)
    units.push_back(block_unit(model, i, world_size));
  std::vector<Group> final{{Part::final_norm, {{"model.norm.weight", {model.hidden_size}}}}};
  if (!model.tied)
    final.push_back({Part::head, {{"lm_head.weight", table}}});
  units.push_back(make_unit("final", final, world_size));
  return units;
}

int64_t parameter_count(const std::vector<Unit>& units) {
  int64_t count = 0;
  for (const Unit& unit : units)
    for (const Slot& slot : unit.slots)
      count += slot.size;
  return count;
}

} // namespace dist_train
