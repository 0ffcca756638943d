// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/arena.h"

#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace dist_train {
namespace {

// A number that no other file has, at the end of the first page.
struct Cookie {
  uint64_t high = 0, low = 0;
};

std::byte* cookie_place(std::byte* data) { return data + kArenaAlignment - sizeof(Cookie); }

Error failed(const std::string& what) {
  return Error{"shared memory between ranks: " + what + ": " + std::strerror(errno)};
}

std::byte* map(int fd, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

// Process numbers mean the same to processes of one namespace of one boot only.
std::string process_space() {
  char boot[40] = {};
  if (const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); fd >= 0) {
    if (read(fd, boot, 36) != 36)
      boot[0] = '\0';
    close(fd);
  }
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) != 0)
    status.st_ino = 0;
  return std::string(boot) + " " + std::to_string(status.st_ino);
}

} // namespace

Result<Arena> Arena::create() {
  const size_t size = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) // a larger file would kill us
    return Error{"shared memory between ranks: files may not be larger than " +
                 std::to_string(limit.rlim_cur) + " bytes (ulimit -f)"};
  const int fd = memfd_create("dist-trainer", MFD_CLOEXEC);
  if (fd < 0)
    return failed("memfd_create()");
  std::byte* data = ftruncate(fd, off_t(size)) == 0 ? map(fd, size) : nullptr;
  Cookie cookie;
  if (!data || getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) {
    const Error error = failed("a mapping of " + std::to_string(size >> 20) + " MiB");
    close(fd);
    return error;
  }
  std::memcpy(cookie_place(data), &cookie, sizeof cookie);
  return Arena(data, size, fd);
}

std::string Arena::address() const {
  Cookie cookie;
  std::memcpy(&cookie, cookie_place(data_), sizeof cookie);
  char text[160];
  std::snprintf(text, sizeof text, "%s %d %d %zu %llx %llx", process_space().c_str(), int(getpid()),
                fd_, size_, static_cast<unsigned long long>(cookie.high),
                static_cast<unsigned long long>(cookie.low));
  return text;
}

Result<Arena> Arena::open(const std::string& address) {
  char boot[41], space[24];
  int pid = 0, number = 0;
  size_t size = 0;
  unsigned long long high = 0, low = 0;
  if (std::sscanf(address.c_str(), "%40s %23s %d %d %zu %llx %llx", boot, space, &pid, &number,
                  &size, &high, &low) != 7 ||
      std::string(boot) + " " + space != process_space())
    return Error{"shared memory between ranks: the other rank's processes are not seen here"};
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return failed(path);
  struct stat status {};
  const bool whole =
      fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && size_t(status.st_size) == size;
  std::byte* data = whole && size >= kArenaAlignment ? map(fd, size) : nullptr;
  if (!data) {
    const Error error = failed(path);
    close(fd);
    return error;
  }
  Arena arena(data, size, fd);
  const Cookie expected{high, low};
  if (std::memcmp(cookie_place(data), &expected, sizeof expected) != 0)
    return Error{"shared memory between ranks: " + path + " is another file"};
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_),
      fd_(std::exchange(other.fd_, -1)) {}

Arena::~Arena() {
  if (data_)
    munmap(data_, size_);
  if (fd_ >= 0)
    close(fd_);
}

Result<Joined> Joined::map(const std::vector<Arena>& arenas, size_t offset, size_t length) {
  const size_t size = arenas.size() * length;
  void* place = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    return failed("address space");
  Joined joined(static_cast<std::byte*>(place), size);
  for (size_t i = 0; i < arenas.size(); ++i)
    if (mmap(joined.data_ + i * length, length, PROT_READ, MAP_SHARED | MAP_FIXED, arenas[i].file(),
             off_t(offset)) == MAP_FAILED)
      return failed("a mapping of parameters");
  return joined;
}

Joined::Joined(Joined&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Joined::~Joined() {
  if (data_)
    munmap(data_, size_);
}

void wake_all(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wait_while(uint32_t* word, uint32_t seen, double seconds) {
  const timespec patience{time_t(seconds), long(std::fmod(seconds, 1.0) * 1e9)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &patience, nullptr, 0);
}

} // namespace dist_train
