// SPDX-License-Identifier: BSD-3-Clause
// The store's server: one thread in rank 0's process, epoll over the listening socket and one
// connection a rank. Strangers (a wrong token, garbage, silence) never get past the handshake and
// cost the ranks nothing: few bytes each, a deadline, and the oldest goes when they are too many.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "libstep/core/result.h"
#include "libstep/store/socket.h"

namespace dist_train {

inline constexpr double kStopSeconds = 60;

struct ServerOptions {
  std::vector<std::string> nodes; // node of each rank, "" where unknown; its size is the world's
  std::string token;
  std::uint32_t generation = 1;
  std::uint16_t program_port = 0; // told to every rank in the handshake
  Socket listener;                // may be none: a world of one
  double silence_seconds = 30;    // of a rank, after which it counts as lost; negative: never
  // Milliseconds that the job has left, or kNoTimeLimit. Called at most once, when somebody first
  // wants to know, from a thread of its own, for which stop() waits, having asked it to end; must
  // not throw.
  std::function<std::int64_t(const std::stop_token&)> time_left;
  // So long before the job's end a stop is asked for; negative: never; 0: kStopSeconds, but no more
  // than a tenth of what is left when the first rank tells of an iteration.
  double stop_seconds = 0;
};

class Server {
public:
  // Starts the thread. own_end becomes rank 0's stream, in no need of a handshake.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Socket& own_end);

  // Serves until all other ranks have left or were lost, at most linger_seconds, then ends.
  void stop(double linger_seconds);
  ~Server();

  class Loop; // server_loop.h: what the thread does

private:
  explicit Server(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

} // namespace dist_train
