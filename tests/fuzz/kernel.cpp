// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/kernel.h"

#include "tests/fuzz/check.h"

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace dist_train::fuzz {

Kernel kernel;

namespace {

bool ours(int fd) { return fd >= kEpoll && fd < (1 << 20); }

Stream* open_stream(int fd) {
  auto found = kernel.streams.find(fd);
  require(found == kernel.streams.end() || !found->second.dropped,
          "a closed descriptor is not used");
  return found == kernel.streams.end() ? nullptr : &found->second;
}

int fail(int code) {
  errno = code;
  return -1;
}

std::uint32_t events_of(const Stream& stream) {
  std::uint32_t events = 0;
  if (!stream.to_server.empty() || stream.ended)
    events |= EPOLLIN;
  if (stream.room > 0)
    events |= EPOLLOUT;
  return (events & stream.watched) | (stream.ended ? std::uint32_t{EPOLLHUP} : 0);
}

} // namespace

} // namespace dist_train::fuzz

using namespace dist_train::fuzz;

// Names that the linker's --wrap asks for.
extern "C" {

int __real_close(int);
int __real_fcntl(int, int, long);
ssize_t __real_read(int, void*, size_t);
ssize_t __real_write(int, const void*, size_t);

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() { return kernel.clock_ms * 1'000'000; }
int __wrap_epoll_create1(int) { return kEpoll; }
int __wrap_eventfd(unsigned, int) { return kWake; }
int __wrap_fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  long argument = va_arg(more, long);
  va_end(more);
  return ours(fd) ? 0 : __real_fcntl(fd, command, argument);
}
int __wrap_setsockopt(int, int, int, const void*, socklen_t) { return 0; }

int __wrap_close(int fd) {
  if (!ours(fd))
    return __real_close(fd);
  kernel.idle_turns = 0;
  if (auto* stream = open_stream(fd))
    stream->dropped = true;
  return 0;
}

ssize_t __wrap_read(int fd, void* out, size_t size) {
  if (!ours(fd))
    return __real_read(fd, out, size);
  kernel.idle_turns = 0;
  kernel.woken = false;
  std::memset(out, 0, size);
  return static_cast<ssize_t>(size);
}

ssize_t __wrap_write(int fd, const void* data, size_t size) {
  if (!ours(fd))
    return __real_write(fd, data, size);
  kernel.woken = true;
  return static_cast<ssize_t>(size);
}

int __wrap_epoll_ctl(int, int operation, int fd, epoll_event* event) {
  std::uint32_t events = operation == EPOLL_CTL_DEL ? 0 : event->events;
  if (auto* stream = open_stream(fd))
    stream->watched = events;
  else if (fd == kListener)
    kernel.listens = events != 0;
  kernel.idle_turns = 0;
  return 0;
}

int __wrap_epoll_wait(int, epoll_event* events, int most, int) {
  kernel.next();
  int count = 0;
  auto report = [&](int fd, std::uint32_t what) {
    if (what == 0 || count == most)
      return;
    events[count].events = what;
    events[count++].data.fd = fd;
  };
  report(kWake, kernel.woken ? EPOLLIN : 0);
  report(kListener, kernel.listens && !kernel.arriving.empty() ? EPOLLIN : 0);
  for (const auto& [fd, stream] : kernel.streams)
    if (!stream.dropped)
      report(fd, events_of(stream));
  require(count == 0 || ++kernel.idle_turns < 3, "the server does not turn without doing anything");
  return count;
}

int __wrap_accept4(int, sockaddr*, socklen_t*, int) {
  kernel.idle_turns = 0;
  if (kernel.arriving.empty())
    return fail(EAGAIN);
  int fd = kernel.arriving.front();
  kernel.arriving.pop_front();
  return fd;
}

ssize_t __wrap_recv(int fd, void* out, size_t size, int flags) {
  kernel.idle_turns = 0;
  auto* stream = open_stream(fd);
  if (!stream)
    return fail(EBADF);
  size = std::min({size, stream->piece, stream->to_server.size()});
  if (size == 0 && !stream->ended)
    return fail(EAGAIN);
  std::memcpy(out, stream->to_server.data(), size);
  if (!(flags & MSG_PEEK))
    stream->to_server.erase(0, size);
  return static_cast<ssize_t>(size);
}

ssize_t __wrap_sendmsg(int fd, const msghdr* message, int) {
  kernel.idle_turns = 0;
  auto* stream = open_stream(fd);
  if (!stream)
    return fail(EBADF);
  if (stream->ended)
    return fail(EPIPE);
  std::size_t sent = 0;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    auto size = std::min(message->msg_iov[i].iov_len, stream->room);
    if (size > 0)
      stream->from_server.append(static_cast<const char*>(message->msg_iov[i].iov_base), size);
    stream->room -= stream->room == SIZE_MAX ? 0 : size;
    sent += size;
  }
  return sent == 0 ? fail(EAGAIN) : static_cast<ssize_t>(sent);
}

} // extern "C"
