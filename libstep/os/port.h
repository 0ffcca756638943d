// SPDX-License-Identifier: BSD-3-Clause
// TCP ports of this machine: bound, held and handed on to a program.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/result.h"
#include "libstep/os/fd.h"

#include <cstdint>

namespace dist_train {

// With `over_lingering` connections of an earlier owner that still wait for their end (TIME_WAIT)
// do not matter, and neither does another socket that holds the port without listening; without it
// nothing else has the port.

// A socket bound to `port` on all addresses (IPv6 and IPv4; IPv4 alone where there is no IPv6),
// not listening, with SO_REUSEADDR: keeps the port from bind(0), from outgoing connections and from
// programs that bind without SO_REUSEADDR, yet lets one server with SO_REUSEADDR take it, as
// c10d's does. Close-on-exec.
Result<Fd> hold_port(std::uint16_t port, bool over_lingering);

// A socket that listens on `port` on all addresses, as above; port 0 takes a free one.
// Close-on-exec, blocking.
Result<Fd> listen_on(std::uint16_t port, bool over_lingering);

// The port a socket is bound to; 0 on failure.
std::uint16_t port_of(const Fd& socket);

// Makes the descriptor survive exec() and moves it to 100 or above, out of the way of scripts that
// use low numbers. The program closes it.
Result<int> hand_over(Fd socket);

// The range the kernel takes ports for outgoing connections from, or what it is by default.
PortRange ephemeral_ports();

} // namespace dist_train
