// SPDX-License-Identifier: BSD-3-Clause
// srun's side of the rendezvous: a listening socket that tasks report to, served by one thread.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/rendezvous.h"
#include "libstep/core/srun_request.h"
#include "libstep/os/command.h"
#include "libstep/os/fd.h"
#include "spank/broker_messages.h"
#include "spank/roll_call.h"
#include "spank/step_watch.h"

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

  // Serves from a thread of its own, which takes no signals, until stop(). It tells the user what
  // StepWatch has to say, and ends srun's step (SIGTERM to this process) where that says so.
  Result<void> start(const Options& options);

  // Takes reports that are already on their way, prints what is there of a table that never became
  // complete, and ends the thread. Does nothing when it does not run.
  void stop();

  // After stop(): whether the step was ended by us.
  bool ended_step() const { return ended_; }

private:
  struct Connection;
  using Clock = std::chrono::steady_clock;

  Broker(Fd listener, Token token);
  void run() noexcept;
  void serve();
  void accept_all();
  bool advance(Connection& connection);      // false: finished
  bool take_request(Connection& connection); // likewise
  void attend_to_requests();
  void say_what_is_new();

  Fd listener_, wake_;
  std::uint16_t port_;
  Token token_;
  std::thread thread_;
  // Of the thread alone while it runs.
  RollCall roll_call_;
  std::optional<StepWatch> watch_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Clock::time_point started_;
  bool stopping_ = false, ended_ = false;
  // Slurm's command for the requests that have this wish: one at a time, however many ask.
  std::optional<Command> command_;
  SrunWish wish_{};
  std::size_t most_connections_ = 1;
  bool no_files_ = false; // srun has no descriptor left: nobody is accepted for a moment
};

} // namespace dist_train
