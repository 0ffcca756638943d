// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/pretokenizer.h"

namespace dist_train {
namespace {

// Two neighbours in one text as one view.
std::string_view joined(std::string_view a, std::string_view b) {
  return {a.data(), a.size() + b.size()};
}

// Joins the pieces as the behavior says and appends what is left of them. A match that follows a
// match is never joined to it, except with `contiguous`.
void join(const std::vector<Piece>& pieces, SplitBehavior behavior,
          std::vector<std::string_view>& words) {
  bool previous = false;
  const size_t first = words.size();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [text, matched] = pieces[i];
    const bool has_previous = words.size() > first;
    switch (behavior) {
    case SplitBehavior::removed:
      if (!matched) {
        words.push_back(text);
      }
      break;
    case SplitBehavior::isolated:
      words.push_back(text);
      break;
    case SplitBehavior::merged_with_previous:
      if (matched && !previous && has_previous) {
        words.back() = joined(words.back(), text);
      } else {
        words.push_back(text);
      }
      break;
    case SplitBehavior::merged_with_next: // a match waits for a following piece that is none
      if (!matched && previous && has_previous) {
        words.back() = joined(words.back(), text);
      } else {
        words.push_back(text);
      }
      break;
    case SplitBehavior::contiguous:
      if (matched == previous && has_previous) {
        words.back() = joined(words.back(), text);
      } else {
        words.push_back(text);
      }
      break;
    }
    previous = matched;
  }
}

} // namespace

Result<Pretokenizer::Words> Pretokenizer::run(std::string_view text) const {
  Words result;
  result.words = {text};
  std::vector<std::string_view> before;
  std::vector<Piece> pieces;
  for (const auto& step : steps_) {
    before.swap(result.words);
    result.words.clear();
    for (const std::string_view piece : before) {
      if (!step) {
        const bool spaced = piece.starts_with(' ');
        result.words.push_back(spaced ? piece : result.owned.emplace_back(" ").append(piece));
        continue;
      }
      pieces.clear();
      if (auto cut = step->regex.cut(piece, pieces); !cut) {
        return cut.error();
      }
      if (step->invert) {
        for (Piece& each : pieces) {
          each.matched = !each.matched;
        }
      }
      join(pieces, step->behavior, result.words);
    }
    std::erase_if(result.words, [](std::string_view word) { return word.empty(); });
  }
  return result;
}

} // namespace dist_train
