// SPDX-License-Identifier: BSD-3-Clause
// Regular expressions of tokenizer.json, which are written for Oniguruma (Ruby's syntax, Unicode),
// run by PCRE2 with its compiler to machine code.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist_train {

// The same expression for PCRE2. Where the two differ in meaning (white space, word characters,
// scripts, quantifiers) it is rewritten; what cannot be rewritten is an error that names it.
Result<std::string> pcre2_pattern(std::string_view oniguruma);

// A part of a text and whether the expression matched it.
struct Piece {
  std::string_view text;
  bool matched;
};

class Regex {
public:
  static Result<Regex> compile(std::string_view oniguruma);
  static Result<Regex> literal(std::string_view text); // matches this text itself

  // Appends the text cut into matches and what lies between them, in order and without gaps.
  // text must be UTF-8. Error: the match needs too much stack or too many steps. Thread-safe.
  Result<void> cut(std::string_view text, std::vector<Piece>& pieces) const;

private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static Result<Regex> compile(const std::string& pattern, unsigned options,
                               std::string_view shown);
  std::shared_ptr<const Code> code_;
};

} // namespace dist_train
