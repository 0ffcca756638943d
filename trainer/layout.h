// SPDX-License-Identifier: BSD-3-Clause
// Where each tensor of the model lies. A unit is what is gathered and reduced as a whole: the
// embedding, each block, the final norm with an untied head. Its tensors lie in one flat buffer;
// the buffer is padded so that it splits into equal shards, and rank r owns the r-th. No torch.
#pragma once

#include "trainer/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

// Tensors begin at multiples of this many elements: 256 bytes in fp32.
constexpr int64_t kAlignment = 64;
// Shards do of this many: a page of memory in bf16.
constexpr int64_t kShardAlignment = 2048;

// Tensors that are used together: matrices that are multiplied with the same input (q, k, v; gate,
// up) and their biases follow each other without a gap and make one.
enum class Part {
  embedding,
  input_norm,
  qkv,
  qkv_bias,
  q_norm,
  k_norm,
  attention_out,
  attention_out_bias,
  inner_norm,
  gate_up,
  gate_up_bias,
  down,
  down_bias,
  final_norm,
  head
};

struct Slot {
  std::string name; // as in the safetensors file
  std::vector<int64_t> shape;
  int64_t offset = 0; // elements from the start of the unit
  int64_t size = 0;   // elements
  bool decays = true; // weight decay applies: matrices only
  Part part{};
};

struct Unit {
  std::string label; // for people: "embedding", "block 3", "final"
  std::vector<Slot> slots;
  int64_t size = 0;   // elements, a multiple of world_size * kShardAlignment
  int64_t window = 0; // of a block's attention; 0: the whole document
};

// The model's units in the order of the forward pass: embedding, blocks, final. The embedding of a
// tied model is the head too.
std::vector<Unit> model_units(const ModelConfig&, int world_size);

int64_t parameter_count(const std::vector<Unit>&); // without padding

} // namespace dist_train
