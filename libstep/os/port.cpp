// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/port.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace dist_train {

namespace {

constexpr int kBacklog = 4096; // the kernel cuts it to net.core.somaxconn

Error failed(const char* what, std::uint16_t port) {
  int error = errno;
  return Error{std::string(what) + " port " + std::to_string(port) + ": " + std::strerror(error),
               error == EADDRINUSE ? "another program on this node has it (ss -ltnp shows which)"
                                   : ""};
}

bool set_option(const Fd& socket, int level, int name, int value) {
  return setsockopt(socket.get(), level, name, &value, sizeof value) == 0;
}

bool bind_any(const Fd& socket, int family, std::uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  return set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0) &&
         bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

Result<Fd> bound(std::uint16_t port, bool reuse) {
  for (int family : {AF_INET6, AF_INET}) {
    Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bool ok =
        fd && (!reuse || set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1)) && bind_any(fd, family, port);
    if (ok)
      return fd;
    bool no_ipv6 = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
    if (family == AF_INET || !no_ipv6)
      return failed("cannot bind", port);
  }
  return failed("cannot bind", port);
}

} // namespace

Result<Fd> hold_port(std::uint16_t port, bool over_lingering) {
  auto fd = bound(port, over_lingering);
  // From now on for the program, which binds the port again.
  if (fd && !over_lingering && !set_option(*fd, SOL_SOCKET, SO_REUSEADDR, 1))
    return failed("cannot share", port);
  return fd;
}

Result<Fd> listen_on(std::uint16_t port, bool over_lingering) {
  auto fd = bound(port, over_lingering);
  if (!fd)
    return fd;
  if (listen(fd->get(), kBacklog) != 0)
    return failed("cannot listen on", port);
  // Once it listens nobody can share the port; the flag has done its work.
  if (over_lingering)
    set_option(*fd, SOL_SOCKET, SO_REUSEADDR, 0);
  return fd;
}

std::uint16_t port_of(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Result<int> hand_over(Fd socket) {
  constexpr int kLowest = 100;
  int fd = fcntl(socket.get(), F_DUPFD, kLowest);
  if (fd < 0)
    fd = fcntl(socket.get(), F_DUPFD, 3); // a low limit of open files
  if (fd < 0)
    return Error{std::string("cannot keep a socket open for the program: ") + std::strerror(errno),
                 "raise the limit of open files (ulimit -n)"};
  return fd;
}

PortRange ephemeral_ports() {
  PortRange range{32768, 60999};
  unsigned low = 0, high = 0;
  if (FILE* file = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re")) {
    if (std::fscanf(file, "%u %u", &low, &high) == 2 && low <= high && high <= 65535)
      range = {static_cast<std::uint16_t>(low), static_cast<std::uint16_t>(high)};
    std::fclose(file);
  }
  return range;
}

} // namespace dist_train
