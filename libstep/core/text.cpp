// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/text.h"

#include <algorithm>
#include <array>

namespace dist_train {

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t limit) {
  if (text.empty() || text.size() > 20)
    return std::nullopt;
  std::uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9')
      return std::nullopt;
    auto digit = static_cast<std::uint64_t>(c - '0');
    if (digit > limit || value > (limit - digit) / 10)
      return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (text.empty())
    return parts;
  for (;;) {
    auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

std::string quoted(std::string_view text, std::size_t limit) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    const bool printable = byte >= 0x20 && byte < 0x7f;
    if (shown.size() + (printable ? 1 : 4) > limit)
      return "'" + shown + "...'";
    if (printable)
      shown += c;
    else
      shown.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
  }
  return "'" + shown + "'";
}

namespace {

constexpr std::size_t kLongestWord = 32;

// Optimal string alignment: insert, delete, replace, and swap of neighbours cost one each.
std::size_t distance(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, kLongestWord + 1>, kLongestWord + 1> cost{};
  for (std::size_t i = 0; i <= a.size(); ++i)
    cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

} // namespace

std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> best;
  if (word.size() > kLongestWord)
    return best;
  std::string lower(word);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  std::size_t best_distance = std::min<std::size_t>(3, 1 + word.size() / 2);
  for (auto candidate : candidates) {
    if (candidate.size() > kLongestWord || candidate.size() >= lower.size() + best_distance ||
        lower.size() >= candidate.size() + best_distance)
      continue;
    auto d = distance(lower, candidate);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::string listing(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

} // namespace dist_train
