// SPDX-License-Identifier: BSD-3-Clause
// Byte-level BPE from a Hugging Face tokenizer.json. Components it does not know are refused by
// name; ids are those of the tokenizers package. No torch.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

class Tokenizer {
public:
  // file names the tokenizer.json; an error tells the component or the place that is wrong.
  static Result<Tokenizer> open(const std::string& file);
  // Ids of the text, without the template's special tokens (add_special_tokens=False), added
  // tokens in the text recognised. Input that is not UTF-8 is an error. Thread-safe.
  Result<std::vector<int32_t>> encode(std::string_view text) const;
  int64_t vocabulary_size() const; // largest id + 1

private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

} // namespace dist_train
