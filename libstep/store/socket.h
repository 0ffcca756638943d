// SPDX-License-Identifier: BSD-3-Clause
// File descriptors and TCP with deadlines: what both ends of the store need and no more.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "libstep/core/result.h"
#include "libstep/os/fd.h"

namespace dist_train {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

// Owns one descriptor (a socket, mostly), like Fd. A child made by fork() closes its copy at once:
// a data loader's worker that outlives its rank must not keep the rank's connections up.
class Socket {
public:
  Socket() = default;
  explicit Socket(int fd);
  explicit Socket(Fd fd) : Socket(fd.release()) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

private:
  int fd_ = -1;
};

struct Endpoint {
  std::string host; // name or address, IPv6 without brackets
  std::uint16_t port = 0;
};

// host_port_text()'s form; the error names the text. Ports 1..65535.
Result<Endpoint> parse_endpoint(std::string_view text);

// "what: text of errno (number)".
std::string system_text(std::string_view what, int error);

// Milliseconds until then for poll(): 0 when it has passed, -1 for TimePoint::max().
int milliseconds_until(TimePoint then);

// A connected stream to the first address of the host that answers. Non-blocking, TCP_NODELAY,
// close-on-exec, keep-alive set so that a vanished peer shows within about half a minute.
Result<Socket> connect_to(const Endpoint& endpoint, TimePoint deadline);

// Whole buffers over a non-blocking stream; the error says which of time, end or errno it was.
Result<void> send_all(const Socket& fd, std::string_view bytes, TimePoint deadline);
Result<std::string> receive_exactly(const Socket& fd, std::size_t length, TimePoint deadline);

// Sets the options connect_to() speaks of on an accepted stream.
void tune_stream(const Socket& fd);

std::uint16_t local_port(const Socket& fd); // 0 when unknown

// A descriptor inherited across exec, named by an environment variable: checked to be a TCP socket
// that listens (or does not), made close-on-exec, and duplicated; the original stays open, so that
// the program may open the step again.
Result<Socket> take_inherited(std::string_view variable, int fd, bool listening);

} // namespace dist_train
