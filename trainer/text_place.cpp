// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/text_place.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

namespace dist_train {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The text with control characters and broken UTF-8 replaced, so that it cannot move the cursor.
std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t good = first_not_utf8(text).value_or(text.size());
    for (const char c : text.substr(0, good)) {
      const auto byte = static_cast<unsigned char>(c);
      result += byte < 0x20 || byte == 0x7F ? '?' : c;
    }
    if (good == text.size()) {
      break;
    }
    result += '?';
    text.remove_prefix(good + 1);
  }
  return result;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Bytes of the character that begins at p, 0 when it is broken or cut off.
size_t character_length(const unsigned char* p, size_t left) {
  const auto follows = [&](size_t i, unsigned low, unsigned high) {
    return i < left && p[i] >= low && p[i] <= high;
  };
  const unsigned first = p[0];
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return follows(1, 0x80, 0xBF) ? 2 : 0;
  }
  if (first >= 0xE0 && first <= 0xEF) { // E0: no overlong form; ED: no surrogates
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) { // F0: no overlong form; F4: up to U+10FFFF
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

} // namespace

TextPlace place_of(std::string_view text, size_t offset) {
  text = text.substr(0, offset);
  const size_t line_start = text.rfind('\n') + 1; // npos + 1 is 0
  const auto line = text.substr(line_start);
  return {1 + size_t(std::count(text.begin(), text.end(), '\n')),
          1 + size_t(std::count_if(line.begin(), line.end(), starts_character))};
}

std::string place_text(const std::string& file, std::string_view text, size_t offset) {
  const TextPlace place = place_of(text, offset);
  return file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

std::string excerpt(std::string_view text, size_t offset, size_t width) {
  constexpr size_t kBefore = 50, kAfter = 30, kWidest = 60;
  width = std::min(width, kWidest);
  offset = std::min(offset, text.size());
  size_t begin = text.substr(0, offset).rfind('\n') + 1;
  size_t end = std::min(text.find('\n', offset), text.size());
  begin = std::max(begin, offset > kBefore ? offset - kBefore : 0);
  while (begin < offset && !starts_character(text[begin])) {
    ++begin;
  }
  end = std::min(end, offset + kAfter + width);
  while (end > offset && end < text.size() && !starts_character(text[end])) {
    --end;
  }
  const std::string before = printable(text.substr(begin, offset - begin));
  const std::string marked = printable(text.substr(offset, std::min(width, end - offset)));
  const auto characters = [](const std::string& s) {
    return size_t(std::count_if(s.begin(), s.end(), starts_character));
  };
  const size_t tildes = std::max<size_t>(characters(marked), 1) - 1;
  return before + printable(text.substr(offset, end - offset)) + "\n" +
         std::string(characters(before), ' ') + "^" + std::string(tildes, '~');
}

std::string quote(std::string_view value) {
  constexpr size_t kLongest = 60;
  if (value.size() <= kLongest) {
    return "'" + printable(value) + "'";
  }
  size_t end = kLongest;
  while (end > 0 && !starts_character(value[end])) {
    --end;
  }
  return "'" + printable(value.substr(0, end)) + "...'";
}

std::optional<std::string> nearest_name(std::string_view name,
                                   const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 256; // hostile names must not cost time
  if (name.size() > kLongest) {
    return {};
  }
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate.substr(0, kLongest));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::optional<size_t> first_not_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight = 0; // most text is ASCII: eight bytes at a time
    while (i + sizeof eight <= text.size()) {
      std::memcpy(&eight, p + i, sizeof eight);
      if (eight & 0x8080808080808080u) {
        break;
      }
      i += sizeof eight;
    }
    if (i == text.size()) {
      break;
    }
    const size_t length = character_length(p + i, text.size() - i);
    if (length == 0) {
      return i;
    }
    i += length;
  }
  return {};
}

} // namespace dist_train
