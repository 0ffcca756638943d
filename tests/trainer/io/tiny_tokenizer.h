// SPDX-License-Identifier: BSD-3-Clause
// Hand-made tokenizers for tests: 256 bytes, two merges, <|end|>.
#pragma once

#include "trainer/tokenizer/byte_alphabet.h"

#include <nlohmann/json.hpp>

namespace dist_train {

constexpr int kAb = 256, kAbc = 257, kEnd = 258;

// Id of a byte is the byte; "ab" is 256, "abc" 257, <|end|> 258.
inline nlohmann::json tiny_tokenizer() {
  using nlohmann::json;
  json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[std::string(byte_character(uint8_t(byte)))] = byte;
  }
  vocabulary["ab"] = kAb;
  vocabulary["abc"] = kAbc;
  return {
      {"added_tokens",
       {{{"id", kEnd},
         {"content", "<|end|>"},
         {"special", true},
         {"normalized", false},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocabulary},
        {"merges", json::array({json::array({"a", "b"}), json::array({"ab", "c"})})}}}};
}

} // namespace dist_train
