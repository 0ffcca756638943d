// SPDX-License-Identifier: BSD-3-Clause
// TCP connections to others, with deadlines.
#pragma once

#include "libstep/core/result.h"
#include "libstep/os/fd.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace dist_train {

// A connected, non-blocking, close-on-exec socket to a literal address or a host name, whose
// addresses are tried in turn and share the time. On failure *reason (may be NULL) is ECONNREFUSED
// where any refused, else the last errno.
Result<Fd> connect_to(const std::string& host, std::uint16_t port,
                      std::chrono::steady_clock::time_point deadline, int* reason = nullptr);

// Whether anything listens there. That nothing does is an answer, too; an error: none came.
Result<bool> listens(const std::string& host, std::uint16_t port,
                     std::chrono::steady_clock::time_point deadline);

enum class Ready { kRead, kWrite };

// Waits until the socket can be read from or written to, or has failed; false at the deadline.
bool wait_for(const Fd& socket, Ready ready, std::chrono::steady_clock::time_point deadline);

} // namespace dist_train
