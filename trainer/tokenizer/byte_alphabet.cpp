// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/byte_alphabet.h"

#include <array>

namespace dist_train {
namespace {

// Visible Latin-1 characters stand for themselves. The other 68 bytes (controls, space, 7F-A0, AD)
// take U+0100, U+0101 ... in their order.
struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int, 0x144> bytes; // by code point; -1: none

  Alphabet() {
    bytes.fill(-1);
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const unsigned code = visible ? byte : next++;
      bytes[code] = int(byte);
      if (code < 0x80) {
        characters[byte] = {char(code)};
      } else {
        characters[byte] = {char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
      }
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

} // namespace

std::string_view byte_character(uint8_t byte) { return alphabet().characters[byte]; }

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string result;
  for (size_t i = 0; i < token.size(); ++i) {
    unsigned code = static_cast<unsigned char>(token[i]);
    if (code >= 0x80) {
      if (code < 0xC2 || code > 0xDF || i + 1 == token.size()) {
        return {};
      }
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3F);
    }
    const int byte = code < alphabet().bytes.size() ? alphabet().bytes[code] : -1;
    if (byte < 0) {
      return {};
    }
    result += char(byte);
  }
  return result;
}

} // namespace dist_train
