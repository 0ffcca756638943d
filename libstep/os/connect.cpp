// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/connect.h"

#include "libstep/core/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace dist_train {

using Clock = std::chrono::steady_clock;

bool wait_for(const Fd& socket, Ready ready, Clock::time_point deadline) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{socket.get(), static_cast<short>(ready == Ready::kRead ? POLLIN : POLLOUT), 0};
    int rc = poll(&polled, 1, static_cast<int>(std::clamp<long long>(left, 0, 3'600'000)));
    if (rc > 0)
      return true;
    if ((rc < 0 && errno != EINTR) || Clock::now() >= deadline)
      return false;
  }
}

namespace {

// 0 or an errno.
int connect_one(const addrinfo& target, Clock::time_point deadline, Fd& result) {
  Fd fd(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    return errno;
  // Who connects speaks first: its first bytes carry the last acknowledgement of the handshake.
  const int off = 0;
  (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
  if (connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      return errno;
    if (!wait_for(fd, Ready::kWrite, deadline))
      return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
      return errno;
    if (error != 0)
      return error;
  }
  result = std::move(fd);
  return 0;
}

} // namespace

Result<Fd> connect_to(const std::string& host, std::uint16_t port, Clock::time_point deadline,
                      int* reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* p) {
    if (p)
      freeaddrinfo(p);
  });
  long left = 0;
  for (const addrinfo* entry = rc == 0 ? list : nullptr; entry; entry = entry->ai_next)
    ++left;
  int error = EHOSTUNREACH;
  Fd fd;
  for (const addrinfo* entry = list; left > 0; entry = entry->ai_next, --left) {
    const auto now = Clock::now();
    const auto failure = connect_one(*entry, now + (deadline - now) / left, fd);
    if (failure == 0)
      return fd;
    if (error != ECONNREFUSED) // an answer says more than none
      error = failure;
  }
  if (reason)
    *reason = error;
  return Error{"cannot connect to " + host_port_text(host, port) + ": " +
                   (rc != 0 ? gai_strerror(rc) : std::strerror(error)),
               error == ECONNREFUSED ? "nothing listens there"
                                     : "a firewall may be in the way; check the route"};
}

Result<bool> listens(const std::string& host, std::uint16_t port, Clock::time_point deadline) {
  int reason = 0;
  auto fd = connect_to(host, port, deadline, &reason);
  if (fd || reason == ECONNREFUSED)
    return bool(fd);
  return fd.error();
}

} // namespace dist_train
