// SPDX-License-Identifier: BSD-3-Clause
// A whole regular file mapped for reading. Pages are read on first use, so that a rank that touches
// a part of a file pays for that part only.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dist_train {

// More bytes than any configuration has: a larger file was given by mistake.
constexpr size_t kLargestConfigFile = size_t(16) << 20;

class MappedFile {
public:
  // Error: absent, no permission, a directory, FIFO or device, more than `largest` bytes; hint
  // tells what the file is for.
  static Result<MappedFile> open(const std::string& path, const std::string& hint,
                                 size_t largest = SIZE_MAX);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  // Both views live as long as this object. A file that another process cuts short afterwards
  // raises SIGBUS on access, as with every mapping.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

} // namespace dist_train
