// SPDX-License-Identifier: BSD-3-Clause
// Which rows each rank takes, how a model is laid out in shards, and which models are refused.
#include "trainer/layout.h"
#include "trainer/plan.h"

#include <gtest/gtest.h>

#include <set>

namespace dist_train {
namespace {

Config config_with(int64_t batch, int64_t global, int64_t accumulation) {
  Config config;
  config.train_file = "t.jsonl";
  config.per_device_train_batch_size = batch;
  config.global_train_batch_size = global;
  config.gradient_accumulation_steps = accumulation;
  return config;
}

TEST(Plan, GlobalBatchDecidesThePasses) {
  const auto plan = make_plan(config_with(2, 24, 1), 100, 4);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->micro_steps, 3);
  EXPECT_EQ(plan->rows_per_step, 24);
  EXPECT_EQ(plan->steps, 4); // one epoch, without the rows that fill no step
}

TEST(Plan, WithoutGlobalBatchItFollowsFromRanks) {
  auto config = config_with(2, 0, 3);
  config.max_steps = 7;
  config.warmup_ratio = 0.2;
  const auto plan = make_plan(config, 100, 4);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->rows_per_step, 24);
  EXPECT_EQ(plan->steps, 7);
  EXPECT_EQ(plan->warmup_steps, 2); // rounded up, as Hugging Face does
}

TEST(Plan, Refused) {
  EXPECT_NE(make_plan(config_with(1, 6, 1), 100, 4).error().message.find("no multiple of 4 rows"),
            std::string::npos);
  EXPECT_NE(make_plan(config_with(1, 8, 4), 100, 4).error().message.find("contradicts"),
            std::string::npos);
  EXPECT_NE(make_plan(config_with(1, 0, 1), 3, 4).error().message.find("t.jsonl gives 3 rows"),
            std::string::npos);
  EXPECT_FALSE(make_plan(config_with(int64_t(1) << 40, 0, int64_t(1) << 40), 100, 4));
}

// Every position of a step is taken by exactly one rank, whatever the number of ranks.
TEST(Plan, PositionsDoNotDependOnTheWorld) {
  for (const int world : {1, 2, 3, 4, 6, 12}) {
    const auto config = config_with(2, 24, 1);
    const auto plan = make_plan(config, 100, world);
    ASSERT_TRUE(plan);
    std::set<int64_t> taken;
    for (int64_t micro = 0; micro < plan->micro_steps; ++micro)
      for (int rank = 0; rank < world; ++rank)
        for (int64_t i = 0; i < 2; ++i)
          taken.insert(first_position(config, *plan, 5, micro, rank, world) + i);
    EXPECT_EQ(taken.size(), 24u);
    EXPECT_EQ(*taken.begin(), 120);
    EXPECT_EQ(*taken.rbegin(), 143);
  }
}

ModelConfig small_model(bool tied) {
  ModelConfig model;
  model.vocab_size = 101;
  model.hidden_size = 24;
  model.intermediate_size = 40;
  model.layers = 3;
  model.heads = 3;
  model.kv_heads = 1;
  model.head_dim = 8;
  model.tied = tied;
  return model;
}

TEST(Layout, TensorsLieApartAndShardsAreEqual) {
  for (const int world : {1, 2, 3, 7}) {
    const auto units = model_units(small_model(false), world);
    ASSERT_EQ(units.size(), 5u);
    for (const Unit& unit : units) {
      EXPECT_EQ(unit.size % (world * kShardAlignment), 0);
      int64_t end = 0;
      for (const Slot& slot : unit.slots) {
        EXPECT_GE(slot.offset, end) << slot.name;
        EXPECT_EQ(slot.decays, slot.name.find("norm") == std::string::npos) << slot.name;
        end = slot.offset + slot.size;
      }
      EXPECT_LE(end, unit.size);
      EXPECT_LT(unit.size - end, world * kShardAlignment);
    }
  }
}

TEST(Layout, MatricesUsedAsOneHaveNoGap) {
  const Unit block = model_units(small_model(true), 2)[1];
  for (const size_t first : {1u, 2u, 6u}) // q-k, k-v, gate-up
    EXPECT_EQ(block.slots[first].offset + block.slots[first].size, block.slots[first + 1].offset);
}

TEST(Layout, ATiedModelHasNoHead) {
  const int64_t table = 101 * 24;
  EXPECT_EQ(parameter_count(model_units(small_model(false), 1)) -
                parameter_count(model_units(small_model(true), 1)),
            table);
}

const std::string kLlama = R"("model_type": "llama", "vocab_size": 100, "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "eos_token_id": [2, 3])";

std::string of_family(const std::string& family) {
  std::string text = kLlama;
  return text.replace(text.find("llama"), 5, family) + R"(, "num_key_value_heads": 2)";
}

TEST(ModelConfig, TraitsOfTheFamilies) {
  const auto mistral = parse_model_config("c", "{" + of_family("mistral") + "}");
  ASSERT_TRUE(mistral);
  EXPECT_EQ(mistral->windows, std::vector<int64_t>(2, 4096)); // its default
  const auto newer =
      parse_model_config("c", "{" + of_family("mistral") + R"(, "sliding_window": null})");
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->windows, std::vector<int64_t>(2, 0));
  const auto qwen2 =
      parse_model_config("c", "{" + of_family("qwen2") + R"(, "sliding_window": 9})");
  ASSERT_TRUE(qwen2);
  EXPECT_TRUE(qwen2->qkv_bias && !qwen2->attention_out_bias && !qwen2->qk_norm);
  EXPECT_EQ(qwen2->windows, std::vector<int64_t>(2, 0)); // use_sliding_window is not set
  const auto window = parse_model_config("c", "{" + of_family("qwen2") + R"(, "sliding_window": 9,
    "use_sliding_window": true, "max_window_layers": 1})");
  ASSERT_TRUE(window);
  EXPECT_EQ(window->windows, (std::vector<int64_t>{0, 9}));
  const auto qwen3 = parse_model_config("c", "{" + of_family("qwen3") + "}");
  ASSERT_TRUE(qwen3);
  EXPECT_TRUE(qwen3->qk_norm && !qwen3->qkv_bias);
  EXPECT_EQ(qwen3->head_dim, 128);
}

TEST(ModelConfig, OldAndNewNamesOfTheRotaryEmbedding) {
  const auto plain = parse_model_config("c", "{" + kLlama + "}");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->rope_theta, 10000);
  EXPECT_EQ(plain->kv_heads, 4);
  EXPECT_EQ(plain->head_dim, 16);
  EXPECT_EQ(plain->end_of_text, 2);
  const auto old = parse_model_config("c", "{" + kLlama + R"(, "rope_theta": 5e5,
    "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                     "original_max_position_embeddings": 8192}})");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->rope_theta, 5e5);
  ASSERT_TRUE(old->llama3_rope);
  EXPECT_EQ(old->llama3_rope->factor, 8);
  const auto recent = parse_model_config(
      "c", "{" + kLlama + R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}})");
  ASSERT_TRUE(recent);
  EXPECT_EQ(recent->rope_theta, 1e5);
}

TEST(ModelConfig, RefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "config.json:1:1: not JSON: "},
      {"[1]", "is a list, not a JSON object"},
      {"{\n\"vocab_size\": ", "config.json:2:15: not JSON: "},
      {"{\"vocab_size\": 1e999}", "config.json:1:16: not usable JSON: number overflow"},
      {"{" + kLlama + "}" + std::string(1, '\0'), "not JSON: a NUL byte"},
      {R"({"hidden_size": )" + std::string(300'000, '[') + std::string(300'000, ']') + "}",
       "nested deeper than 100 levels"},
      {"{" + kLlama + R"(, "hidden_size": [[1]]})", "hidden_size is a list"},
      {R"({"model_type": "gpt2"})", "model_type 'gpt2' is not supported"},
      {"{" + kLlama + R"(, "vocab_size": "x"})", "vocab_size is 'x'"},
      {"{" + kLlama + R"(, "hidden_size": -1})", "hidden_size is -1"},
      {"{" + kLlama + R"(, "hidden_size": 1e30})", "hidden_size is 1e+30"},
      {"{" + kLlama + R"(, "num_hidden_layers": 99999999999999999999})", "num_hidden_layers is"},
      {"{" + kLlama + R"(, "num_key_value_heads": 3})", "is no multiple of num_key_value_heads 3"},
      {"{" + kLlama + R"(, "head_dim": 15})", "head_dim 15 is odd"},
      {"{" + kLlama + R"(, "attention_bias": 1})", "attention_bias is 1"},
      {"{" + kLlama + R"(, "attention_dropout": 0.1})", "attention_dropout is 0.1"},
      {"{" + of_family("mistral") + R"(, "sliding_window": 0})", "sliding_window is 0"},
      {"{" + of_family("qwen3") + R"(, "layer_types": ["full_attention"]})", "layer_types is"},
      {"{" + of_family("qwen2") + R"(, "layer_types": ["full_attention", "sliding_attention"]})",
       "sliding_attention without a window"},
      {"{" + of_family("qwen2") + R"(, "layer_types": ["chunked_attention", 1]})",
       "layer_types is 'chunked_attention'"},
      {"{" + kLlama + R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2}})",
       "rope_type 'dynamic'"},
      {"{" + kLlama + R"(, "hidden_act": "gelu"})", "hidden_act 'gelu'"},
      {"{" + kLlama + R"(, "rope_scaling": {"rope_type": "yarn"}})", "rope_type 'yarn'"},
      {"{" + kLlama + R"(, "eos_token_id": 100})", "eos_token_id is 100"},
      {R"({"model_type": "llama", "hidden_size": 64})", "no member 'vocab_size'"},
  };
  for (const auto& [text, expected] : cases) {
    const auto result = parse_model_config("config.json", text);
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().message.find(expected), std::string::npos) << result.error().message;
    EXPECT_EQ(result.error().message.rfind("config.json", 0), 0u);
    EXPECT_FALSE(result.error().hint.empty());
  }
}

} // namespace
} // namespace dist_train
