// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/socket.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstep/core/rendezvous.h"
#include "libstep/core/text.h"
#include "libstep/os/connect.h"

namespace dist_train {
namespace {

// Descriptors a forked child must let go of. A plain array of atomics, because the child's handler
// may do nothing that needs a lock. A bit a descriptor; those beyond it are merely kept by a child.
constexpr std::size_t kTracked = 65536;
std::array<std::atomic<unsigned long>, kTracked / (sizeof(unsigned long) * CHAR_BIT)> tracked;
constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;

void close_in_child() {
  for (std::size_t i = 0; i < tracked.size(); ++i) {
    unsigned long word = tracked[i].exchange(0);
    for (std::size_t bit = 0; word != 0; ++bit, word >>= 1)
      if (word & 1)
        ::close(static_cast<int>(i * kBits + bit));
  }
}

void track(int fd, bool on) {
  static const int registered = pthread_atfork(nullptr, nullptr, close_in_child);
  (void)registered;
  const auto index = static_cast<std::size_t>(fd);
  if (fd < 0 || index >= kTracked)
    return;
  const unsigned long mask = 1UL << (index % kBits);
  if (on)
    tracked[index / kBits].fetch_or(mask);
  else
    tracked[index / kBits].fetch_and(~mask);
}

void set_option(const Socket& fd, int level, int name, int value) {
  // Only conveniences are set this way: a kernel without one still gives a working stream.
  (void)setsockopt(fd.get(), level, name, &value, sizeof value);
}

Result<void> wait_for(const Socket& fd, short events, TimePoint deadline, std::string_view what) {
  for (;;) {
    pollfd entry = {fd.get(), events, 0};
    const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0)
      return {};
    if (ready < 0 && errno != EINTR)
      return Error{system_text(what, errno)};
    if (ready == 0 && Clock::now() >= deadline)
      return Error{std::string(what) + ": no answer in time"};
  }
}

// A port of this very node in the ephemeral range can connect to itself; that is nobody.
bool met_itself(const Socket& fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  return getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         getpeername(fd.get(), reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

} // namespace

Socket::Socket(int fd) : fd_(fd) { track(fd_, true); }

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    reset();
    std::swap(fd_, other.fd_);
  }
  return *this;
}

void Socket::reset() {
  if (fd_ < 0)
    return;
  track(fd_, false);
  ::close(fd_);
  fd_ = -1;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const Error bad{quoted(text) + " is not ADDRESS:PORT with a port from 1 to 65535",
                  "write 10.0.0.1:23000, or [fd00::1]:23000 for IPv6"};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']')
      return bad;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;
  }
  const auto port = parse_number(digits, 65535);
  if (host.size() > 255 || !port || *port == 0)
    return bad;
  return Endpoint{std::string(host), static_cast<std::uint16_t>(*port)};
}

std::string system_text(std::string_view what, int error) {
  return std::string(what) + ": " + std::generic_category().message(error) + " (errno " +
         std::to_string(error) + ")";
}

int milliseconds_until(TimePoint then) {
  if (then == TimePoint::max())
    return -1;
  const auto now = Clock::now();
  if (then <= now)
    return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(then - now).count();
  return static_cast<int>(std::min<decltype(left)>(left, 1 << 30));
}

void tune_stream(const Socket& fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0); // answers carry the acknowledgements
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
}

Result<Socket> connect_to(const Endpoint& endpoint, TimePoint deadline) {
  auto connected = connect_to(endpoint.host, endpoint.port, deadline);
  if (!connected)
    return connected.error();
  Socket fd(*std::move(connected));
  if (met_itself(fd))
    return Error{"cannot connect to " + host_port_text(endpoint.host, endpoint.port) +
                 ": the socket met itself, nobody listens there"};
  tune_stream(fd);
  return fd;
}

Result<void> send_all(const Socket& fd, std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(fd, POLLOUT, deadline, "send"); !ready)
        return ready;
    } else if (errno != EINTR) {
      return Error{system_text("send", errno)};
    }
  }
  return {};
}

Result<std::string> receive_exactly(const Socket& fd, std::size_t length, TimePoint deadline) {
  // Grows with what has come, so that a peer's claim alone costs no memory.
  constexpr std::size_t kPiece = 1 << 20;
  std::string bytes;
  std::size_t have = 0;
  while (have < length) {
    bytes.resize(have + std::min(kPiece, length - have));
    const ssize_t got = ::recv(fd.get(), bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return Error{"the other end closed the connection"};
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(fd, POLLIN, deadline, "receive"); !ready)
        return ready.error();
    } else if (errno != EINTR) {
      return Error{system_text("receive", errno)};
    }
  }
  return bytes;
}

std::uint16_t local_port(const Socket& fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<Socket> take_inherited(std::string_view variable, int fd, bool listening) {
  const std::string name = std::string(variable) + "=" + std::to_string(fd);
  const std::string hint = "leave the descriptors that the launcher passes on open until "
                           "step_open(), or unset the variable's step altogether";
  int accepts = 0;
  socklen_t size = sizeof accepts;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0)
    return Error{name + " is no open socket: " + system_text("getsockopt", errno), hint};
  int domain = 0;
  size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      (domain != AF_INET && domain != AF_INET6))
    return Error{name + " is not a TCP socket", hint};
  if ((accepts != 0) != listening)
    return Error{name + (listening ? " is not a listening socket" : " already listens"), hint};
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return Error{system_text(name + ": fcntl", errno), hint};
  Socket copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy)
    return Error{system_text(name + ": fcntl", errno), hint};
  return copy;
}

} // namespace dist_train
