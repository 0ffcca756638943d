// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/server.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <sys/socket.h>

#include "libstep/store/server_loop.h"
#include "libstep/store/threads.h"

namespace dist_train {

Server::Server(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Socket& own_end) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Error{system_text("socketpair", errno)};
  Socket ours(ends[0]);
  Socket theirs(ends[1]);
  auto loop = std::make_unique<Loop>(std::move(options));
  if (auto ready = loop->prepare(std::move(theirs)); !ready)
    return ready.error();
  std::unique_ptr<Server> server(new Server(std::move(loop)));
  auto thread = start_quiet_thread("libstep-store", [loop = server->loop_.get()] { loop->run(); });
  if (!thread)
    return thread.error();
  server->thread_ = *std::move(thread);
  own_end = std::move(ours);
  return server;
}

void Server::stop(double linger_seconds) {
  if (!thread_.joinable())
    return;
  loop_->ask_to_stop(std::max(0.0, linger_seconds));
  thread_.join();
}

Server::~Server() { stop(0); }

} // namespace dist_train
