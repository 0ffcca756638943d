// SPDX-License-Identifier: BSD-3-Clause
// What a Hugging Face config.json says about a model of the Llama kind: Llama, Mistral, Qwen2 and
// Qwen3, which differ in a few traits only. What this trainer cannot compute is refused by name,
// never ignored. No torch.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// rope_type "llama3": frequencies stretched for contexts longer than the model was first made for.
struct Llama3Rope {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  double original_max_position_embeddings = 0;
};

struct ModelConfig {
  std::string family; // model_type
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  double rope_factor = 1; // rope_type "linear": positions are divided by it
  std::optional<Llama3Rope> llama3_rope;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;            // RMS norm of each head's queries and keys
  std::vector<int64_t> windows;    // a layer: tokens that one attends to, itself included; 0: all
  double initializer_range = 0.02; // standard deviation of random matrices
  bool tied = false;               // the head is the embedding
  int32_t end_of_text = -1;        // eos_token_id, the first if there are several
};

// Reads directory/config.json. Errors name the file, the member and the value seen.
Result<ModelConfig> read_model_config(const std::string& directory);

// The same from the text of a config.json; `file` names it in errors.
Result<ModelConfig> parse_model_config(const std::string& file, std::string_view text);

} // namespace dist_train
