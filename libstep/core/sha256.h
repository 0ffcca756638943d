// SPDX-License-Identifier: BSD-3-Clause
// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for the handshake with the store and for names
// derived from a step. Not meant for bulk data. Pure functions: no state, no errors, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace dist_train {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);

// Any key length; an empty key is allowed (and protects nothing).
Digest hmac_sha256(std::string_view key, std::string_view message);

// Compares without telling by its duration where the two differ.
bool equal_in_constant_time(const Digest& a, const Digest& b);

// Lower-case hexadecimal digits, two a byte.
std::string to_hex(std::string_view bytes);

inline std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

} // namespace dist_train
