// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/layout.h"

namespace dist_train {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
};

// A group's tensors follow each other without a gap.
using Group = std::vector<Tensor>;

Unit make_unit(std::string label, const std::vector<Group>& groups, int world_size) {
  Unit unit{std::move(label), {}, 0};
  for (const Group& group : groups) {
    unit.size = round_up(unit.size, kAlignment);
    for (const Tensor& tensor : group) {
      Slot slot{tensor.name, tensor.shape, unit.size, 1, tensor.shape.size() > 1};
      for (int64_t extent : tensor.shape)
        slot.size *= extent;
      unit.size += slot.size;
      unit.slots.push_back(std::move(slot));
    }
  }
  unit.size = round_up(unit.size, kAlignment * world_size);
  return unit;
}

Unit block_unit(const ModelConfig& model, int64_t index, int world_size) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const int64_t hidden = model.hidden_size, inner = model.intermediate_size;
  const int64_t queries = model.heads * model.head_dim, keys = model.kv_heads * model.head_dim;
  return make_unit("block " + std::to_string(index),
                   {{{prefix + "input_layernorm.weight", {hidden}}},
                    {{prefix + "self_attn.q_proj.weight", {queries, hidden}},
                     {prefix + "self_attn.k_proj.weight", {keys, hidden}},
                     {prefix + "self_attn.v_proj.weight", {keys, hidden}}},
                    {{prefix + "self_attn.o_proj.weight", {hidden, queries}}},
                    {{prefix + "post_attention_layernorm.weight", {hidden}}},
                    {{prefix + "mlp.gate_proj.weight", {inner, hidden}},
                     {prefix + "mlp.up_proj.weight", {inner, hidden}}},
                    {{prefix + "mlp.down_proj.weight", {hidden, inner}}}},
                   world_size);
}

} // namespace

std::vector<Unit> model_units(const ModelConfig& model, int world_size) {
  const std::vector<int64_t> table{model.vocab_size, model.hidden_size};
  std::vector<Unit> units;
  units.push_back(make_unit("embedding", {{{"model.embed_tokens.weight", table}}}, world_size));
  for (int64_t i = 0; i < model.layers; ++i)
    units.push_back(block_unit(model, i, world_size));
  std::vector<Group> final{{{"model.norm.weight", {model.hidden_size}}}};
  if (!model.tied)
    final.push_back({{"lm_head.weight", table}});
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
