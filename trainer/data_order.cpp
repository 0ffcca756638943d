// SPDX-License-Identifier: BSD-3-Clause
// The order of training rows, computed and never stored: a Feistel network permutes a power of four
// that holds all rows, and is applied again to what falls outside ("cycle walking", J. Black and
// P. Rogaway, Ciphers with Arbitrary Finite Domains, 2002). The round function is the finaliser of
// SplitMix64 (G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number Generators, 2014).
#include "trainer/data.h"

#include <bit>

namespace dist_train {
namespace {

constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;

uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// A permutation of 0 .. 2^(2 * half_bits) - 1 for each key.
uint64_t feistel(uint64_t value, unsigned half_bits, uint64_t key) {
  constexpr unsigned kRounds = 6; // four are enough for large halves; small ones mix slower
  const uint64_t mask = (uint64_t(1) << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (unsigned round = 1; round <= kRounds; ++round) {
    const uint64_t old_right = right;
    right = left ^ (mix(mix(key + round * kGoldenRatio) + right) & mask);
    left = old_right;
  }
  return left << half_bits | right;
}

} // namespace

int64_t row_at(int64_t index, int64_t rows, uint64_t seed) {
  const uint64_t epoch = uint64_t(index / rows);
  const uint64_t key = mix(mix(seed + kGoldenRatio) + epoch);
  const unsigned bits = unsigned(std::bit_width(uint64_t(rows - 1)));
  const unsigned half_bits = bits < 2 ? 1 : (bits + 1) / 2;
  uint64_t value = uint64_t(index % rows);
  do { // fewer than four turns on average
    value = feistel(value, half_bits, key);
  } while (value >= uint64_t(rows));
  return int64_t(value);
}

} // namespace dist_train
