// SPDX-License-Identifier: BSD-3-Clause
// Byte-pair encoding of one word: its bytes become ids, and the adjacent pair of the lowest rank is
// merged again and again, the leftmost first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dist_train {

struct Merge {
  int32_t rank; // -1: this pair does not merge
  int32_t id;   // of the merged token
};

// Pair of ids to merge; open addressing, because this look-up is the inner loop.
class MergeTable {
public:
  explicit MergeTable(size_t merges);
  void set(int32_t left, int32_t right, Merge merge); // a pair set twice keeps the last
  Merge find(int32_t left, int32_t right) const;

private:
  struct Slot {
    uint64_t pair;
    Merge merge;
  };
  size_t slot_of(uint64_t pair) const;
  std::vector<Slot> slots_;
  size_t mask_;
};

struct BpeModel {
  std::array<int32_t, 256> byte_ids{}; // -1: the byte has no token of its own
  MergeTable merges{0};
  int32_t unknown_id = -1;    // stands for bytes without token; -1: they are left out
  bool fuse_unknown = false;  // a run of unknown bytes is one token
  bool ignore_merges = false; // a word that is a token is that token, whatever the merges
  std::unordered_map<std::string, int32_t> words; // bytes of each token; used by ignore_merges
};

class Bpe {
public:
  explicit Bpe(BpeModel model);
  // Appends the ids of a word. O(n log n) in its bytes. Thread-safe; each thread remembers short
  // words it has seen.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

private:
  void merge(std::string_view word, std::vector<int32_t>& ids) const;
  BpeModel model_;
  uint64_t serial_; // tells the models apart in the threads' memories
};

} // namespace dist_train
