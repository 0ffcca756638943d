// SPDX-License-Identifier: BSD-3-Clause
// Properties that a fuzz target checks on the real code: one that does not hold ends the run, and
// libFuzzer writes the input that did it.
#pragma once

#include "libstep/core/result.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dist_train::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const char* property) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", property);
  std::abort();
}

inline bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// An error is for a person's terminal: it says something, in few and harmless bytes, whatever the
// input was.
inline void require_readable(const Error& error) {
  constexpr std::size_t kLongest = 1000;
  require(!error.message.empty(), "an error says what happened");
  require(printable(error.message), "an error's message is printable");
  require(printable(error.hint), "an error's hint is printable");
  require(error.message.size() <= kLongest, "an error's message is short");
  require(error.hint.size() <= kLongest, "an error's hint is short");
}

} // namespace dist_train::fuzz
