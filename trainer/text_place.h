// SPDX-License-Identifier: BSD-3-Clause
// Helpers of error messages: where in a text something is, that line with a marker below it, and
// the name a person probably meant. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

struct TextPlace {
  size_t line = 1;   // from 1
  size_t column = 1; // from 1, in characters
};

// The place of a byte of the text; an offset past the end means the end.
TextPlace place_of(std::string_view text, size_t offset);

// "FILE:LINE:COLUMN" of a byte of the text.
std::string place_text(const std::string& file, std::string_view text, size_t offset);

// The line of text around the byte, and below it a caret with width - 1 tildes, 59 at most. Long
// lines are cut, bytes that a terminal cannot show become '?'.
std::string excerpt(std::string_view text, size_t offset, size_t width);

// A piece of untrusted input for a message: quoted, cut to 60 bytes, unprintable bytes as '?'.
std::string quote(std::string_view value);

// The candidate with the smallest edit distance, if it is near enough to be what was meant.
std::optional<std::string> nearest_name(std::string_view name,
                                   const std::vector<std::string>& candidates);

// Offset of the first byte that is not UTF-8 (overlong forms and surrogates included), or nothing.
std::optional<size_t> first_not_utf8(std::string_view text);

} // namespace dist_train
