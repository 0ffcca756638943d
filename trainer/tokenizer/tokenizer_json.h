// SPDX-License-Identifier: BSD-3-Clause
// The parts of a tokenizer.json. What is not known here is refused by name, never guessed.
#pragma once

#include "trainer/tokenizer/added_tokens.h"
#include "trainer/tokenizer/bpe.h"
#include "trainer/tokenizer/pretokenizer.h"

namespace dist_train {

struct TokenizerParts {
  AddedTokens raw;        // added tokens that are looked for first
  AddedTokens normalized; // those that are looked for in what is left (after normalisation)
  Pretokenizer pretokenizer;
  BpeModel model;
  int64_t vocabulary_size = 0; // largest id + 1
};

// file names the place in errors.
Result<TokenizerParts> read_tokenizer_json(const std::string& file, std::string_view text);

} // namespace dist_train
