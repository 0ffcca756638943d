// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/bpe.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

namespace dist_train {
namespace {

constexpr uint64_t kNoPair = std::numeric_limits<uint64_t>::max(); // ids are not negative

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

// Words seen by this thread, one per slot; a newer word takes the slot of an older one.
class WordMemory {
public:
  static constexpr size_t kLongestWord = 24, kMostIds = 8;
  struct Slot {
    uint64_t hash = 0;
    uint8_t length = 0; // 0: empty
    uint8_t ids_count = 0;
    char word[kLongestWord];
    int32_t ids[kMostIds];
  };

  // The slot a word belongs in, emptied when it held words of another model.
  Slot& slot(uint64_t model, uint64_t hash) {
    if (model != model_) {
      std::fill(slots_.begin(), slots_.end(), Slot());
      model_ = model;
    }
    return slots_[hash % kSlots];
  }

private:
  static constexpr size_t kSlots = 1 << 15; // 2.5 MiB a thread
  uint64_t model_ = 0;
  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

// A word being merged: its symbols as a list, and the merges possible now.
struct Symbol {
  int32_t id; // -1: swallowed by the symbol before
  int32_t previous, next;
};
struct Candidate {
  Merge merge;
  int32_t at;          // the left symbol
  int32_t left, right; // the ids, to notice that a symbol has changed since
  bool operator<(const Candidate& other) const { // the heap's top is the lowest rank, leftmost
    return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
  }
};
struct MergeScratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

} // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(std::max<size_t>(2 * merges, 8)), Slot{kNoPair, {-1, -1}}),
      mask_(slots_.size() - 1) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = size_t((pair * 0x9E3779B97F4A7C15u) >> 20) & mask_; // multiplicative hashing
  while (slots_[slot].pair != pair && slots_[slot].pair != kNoPair) {
    slot = (slot + 1) & mask_;
  }
  return slot;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

Bpe::Bpe(BpeModel model) : model_(std::move(model)) {
  static std::atomic<uint64_t> models = 0;
  serial_ = ++models;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) {
    return;
  }
  if (word.size() > WordMemory::kLongestWord) {
    merge(word, ids);
    return;
  }
  thread_local WordMemory memory;
  const uint64_t hash = std::hash<std::string_view>()(word);
  WordMemory::Slot& slot = memory.slot(serial_, hash);
  if (slot.hash == hash && slot.length == word.size() &&
      std::memcmp(slot.word, word.data(), word.size()) == 0) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.ids_count);
    return;
  }
  const size_t before = ids.size();
  merge(word, ids);
  const size_t count = ids.size() - before;
  if (count <= WordMemory::kMostIds) {
    slot.hash = hash;
    slot.length = uint8_t(word.size());
    slot.ids_count = uint8_t(count);
    std::memcpy(slot.word, word.data(), word.size());
    std::copy_n(ids.data() + before, count, slot.ids);
  }
}

void Bpe::merge(std::string_view word, std::vector<int32_t>& ids) const {
  if (model_.ignore_merges) {
    if (const auto whole = model_.words.find(std::string(word)); whole != model_.words.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  thread_local MergeScratch scratch;
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();

  bool after_unknown = false;
  for (const char c : word) {
    const int32_t known = model_.byte_ids[static_cast<unsigned char>(c)];
    const int32_t id = known >= 0 ? known : model_.unknown_id;
    const bool fused = known < 0 && after_unknown && model_.fuse_unknown;
    if (id >= 0 && !fused) {
      const auto at = int32_t(symbols.size());
      symbols.push_back({id, at - 1, at + 1});
    }
    after_unknown = known < 0;
  }
  const auto end = int32_t(symbols.size());

  const auto consider = [&](int32_t at) {
    if (at < 0 || symbols[size_t(at)].next >= end) {
      return;
    }
    const int32_t left = symbols[size_t(at)].id;
    const int32_t right = symbols[size_t(symbols[size_t(at)].next)].id;
    if (const Merge merge = model_.merges.find(left, right); merge.rank >= 0) {
      heap.push_back({merge, at, left, right});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  for (int32_t at = 0; at + 1 < end; ++at) {
    consider(at);
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[size_t(best.at)];
    if (left.id != best.left || left.next >= end || symbols[size_t(left.next)].id != best.right) {
      continue; // one of the two has become part of another symbol
    }
    Symbol& right = symbols[size_t(left.next)];
    left.id = best.merge.id;
    left.next = right.next;
    right.id = -1;
    if (left.next < end) {
      symbols[size_t(left.next)].previous = best.at;
    }
    consider(left.previous);
    consider(best.at);
  }
  for (int32_t at = 0; at < end; at = symbols[size_t(at)].next) {
    ids.push_back(symbols[size_t(at)].id);
  }
}

} // namespace dist_train
