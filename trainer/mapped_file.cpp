// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dist_train {

Result<MappedFile> MappedFile::open(const std::string& path, const std::string& hint,
                                    size_t largest) {
  // O_NONBLOCK: a FIFO without a writer must not hang us before it is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return Error{path + ": cannot open: " + std::strerror(errno), hint};
  }
  struct stat status = {};
  if (fstat(fd, &status) != 0) {
    const int error = errno;
    close(fd);
    return Error{path + ": cannot stat: " + std::strerror(error), hint};
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    return Error{path + (S_ISDIR(status.st_mode) ? ": is a directory, not a file"
                                                 : ": is not a regular file"),
                 hint};
  }
  const auto size = size_t(status.st_size);
  if (size > largest) {
    close(fd);
    return Error{path + ": has " + std::to_string(size) + " bytes, more than the " +
                     std::to_string(largest) + " that such a file may have",
                 hint};
  }
  if (size == 0) { // mmap refuses length 0
    close(fd);
    return MappedFile(nullptr, 0);
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) {
    return Error{path + ": cannot map " + std::to_string(size) + " bytes: " + std::strerror(error),
                 hint};
  }
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) {
    munmap(const_cast<std::byte*>(data_), size_);
  }
}

} // namespace dist_train
