// SPDX-License-Identifier: BSD-3-Clause
// srun's side of the rendezvous: a listening socket that tasks report to, served by one thread.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/rendezvous.h"
#include "libstep/os/fd.h"
#include "spank/broker_messages.h"
#include "spank/roll_call.h"

#include <chrono>
#include <memory>
#include <thread>

namespace dist_train {

class Broker {
public:
  // Listens on a port of the range, or on any if there is none.
  static Result<std::unique_ptr<Broker>> open(std::optional<PortRange> range);
  ~Broker();

  std::uint16_t port() const { return port_; }
  const Token& token() const { return token_; }

  // Serves from a thread of its own, which takes no signals, until stop(). With `verbose` it
  // prints the mapping table when the last row arrives.
  Result<void> start(const Options& options);

  // Takes reports that are already on their way, prints what is there of a table that never became
  // complete, and ends the thread. Does nothing when it does not run.
  void stop();

private:
  struct Connection;
  using Clock = std::chrono::steady_clock;

  Broker(Fd listener, Token token);
  void serve();
  void accept_all();
  bool advance(Connection& connection); // false: finished
  void progress();
  void print_table();

  Fd listener_, wake_;
  std::uint16_t port_;
  Token token_;
  std::thread thread_;
  // Of the thread alone while it runs.
  Options options_;
  RollCall roll_call_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Clock::time_point started_, next_progress_;
  bool table_done_ = true;
};

} // namespace dist_train
