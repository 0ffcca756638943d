// SPDX-License-Identifier: BSD-3-Clause
// The printable characters that byte-level tokenizers write for the 256 bytes (GPT-2's table).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dist_train {

// The character of a byte, as UTF-8 (one or two bytes).
std::string_view byte_character(uint8_t byte);

// The bytes that a token of such characters stands for; nothing when it has any other character.
std::optional<std::string> bytes_of_token(std::string_view token);

} // namespace dist_train
