// SPDX-License-Identifier: BSD-3-Clause
// Small text helpers shared by the parsers: strict numbers, splitting, quoting for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// A decimal number of digits only (no sign, no blanks, at most 20 digits) not above `limit`.
std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t limit);

// The parts between separators; an empty text has no parts, "a,,b" has an empty one.
std::vector<std::string_view> split(std::string_view text, char separator);

// The text in single quotes as a message may show it: bytes outside printable ASCII become \xNN,
// and what would be more than `limit` characters on the screen is cut with "...".
std::string quoted(std::string_view text, std::size_t limit = 80);

// The word nearest to `word` (Damerau-Levenshtein without regard to case, at most 2 edits and half
// of its letters), or nothing. Ties go to the earlier candidate.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

// "a, b, c": the first eight, "and 5 more".
std::string listing(const std::vector<std::string>& names);

} // namespace dist_train
