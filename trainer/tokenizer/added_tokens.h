// SPDX-License-Identifier: BSD-3-Clause
// Tokens that are found in the raw text before anything else, such as <|endoftext|>.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

struct AddedToken {
  std::string content;
  int32_t id;
  bool strip_left = false;  // white space before it belongs to it
  bool strip_right = false; // the same after it
};

// A part of a text: an added token's id, or text that is none (id -1).
struct Segment {
  std::string_view text;
  int32_t id = -1;
};

class AddedTokens {
public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});
  // Appends the parts of the text in order: at each place the longest token that begins there.
  void cut(std::string_view text, std::vector<Segment>& segments) const;

private:
  const AddedToken* longest_at(std::string_view text) const;
  std::vector<AddedToken> tokens_; // sorted by content
  std::array<bool, 256> first_{};  // bytes that begin a token
};

} // namespace dist_train
