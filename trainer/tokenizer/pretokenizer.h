// SPDX-License-Identifier: BSD-3-Clause
// Cuts a text into the words that are merged on their own: a row of steps, each of which cuts what
// the one before has left.
#pragma once

#include "trainer/tokenizer/regex.h"

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// What becomes of the matches of a Split step.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitStep {
  Regex regex;
  SplitBehavior behavior;
  bool invert = false; // what lies between matches is the match
};

class Pretokenizer {
public:
  void add(SplitStep step) { steps_.push_back({std::move(step)}); }
  void add_prefix_space() { steps_.push_back({}); } // unless the piece begins with one

  struct Words {
    std::vector<std::string_view> words; // into the text or into owned
    std::deque<std::string> owned;
  };
  // text is UTF-8 and outlives the result. Words are never empty.
  Result<Words> run(std::string_view text) const;

private:
  std::vector<std::optional<SplitStep>> steps_; // no step: the prefix space
};

} // namespace dist_train
