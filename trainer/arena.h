// SPDX-License-Identifier: BSD-3-Clause
// Memory that the ranks of one node see of each other. Each rank makes one anonymous file, which
// leaves no name behind and counts towards no limit of /dev/shm, and maps those of the others. All
// allocate the same sizes in the same order, so that an offset means the same in every arena. No
// torch.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

// Allocations begin at multiples of this, which is one of every page size in use.
constexpr size_t kArenaAlignment = 4096;

// One file, mapped; unmapped at the end. Pages exist once they are touched.
class Arena {
public:
  // As large as this machine's memory: what is touched counts.
  static Result<Arena> create();
  // Another rank's, by its address(). Error when it cannot be opened or is not that arena.
  static Result<Arena> open(const std::string& address);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  // What another rank of the node needs to open it; text.
  std::string address() const;

  int file() const { return fd_; }

  // The first page belongs to the caller, zeroed at first but for the last 16 bytes.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

private:
  Arena(std::byte* data, size_t size, int fd) : data_(data), size_(size), fd_(fd) {}

  std::byte* data_;
  size_t size_;
  int fd_;
};

// The same part of each of several arenas, one behind the other in address space; for reading.
class Joined {
public:
  // offset and length are multiples of the page size.
  static Result<Joined> map(const std::vector<Arena>& arenas, size_t offset, size_t length);
  Joined(Joined&& other) noexcept;
  Joined& operator=(Joined&&) = delete;
  ~Joined();
  std::byte* data() const { return data_; }

private:
  Joined(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  size_t size_;
};

// Wakes threads of any process that wait for `word`.
void wake_all(uint32_t* word);
// Waits until `word` differs from `seen`, at most `seconds`; may return early.
void wait_while(uint32_t* word, uint32_t seen, double seconds);

} // namespace dist_train
