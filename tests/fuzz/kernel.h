// SPDX-License-Identifier: BSD-3-Clause
// The few system calls of the store's server, answered from memory: streams whose far ends the
// target plays, and a clock that it sets. The server's own code runs as it is; the linker leads its
// calls here (--wrap, see CMakeLists.txt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

namespace dist_train::fuzz {

// One stream, seen from its far end.
struct Stream {
  std::string to_server;        // not yet read
  std::string from_server;      // all that was ever written
  std::size_t room = SIZE_MAX;  // bytes that the server may still write
  std::size_t piece = SIZE_MAX; // bytes that it gets in one call
  bool ended = false;           // by the far end
  bool dropped = false;         // by the server
  std::uint32_t watched = 0;    // events
};

struct Kernel {
  std::map<int, Stream> streams; // by the server's descriptor
  std::deque<int> arriving;      // those to be accepted
  std::function<void()> next;    // called when the server waits: makes something happen
  std::int64_t clock_ms = 1000;
  bool woken = false;
  bool listens = false; // whether the listener is watched
  int idle_turns = 0;   // waits in a row that had events, none of which led to a call
};

inline constexpr int kEpoll = 900, kWake = 901, kListener = 902, kFirstStream = 1000;

extern Kernel kernel;

} // namespace dist_train::fuzz
