// SPDX-License-Identifier: BSD-3-Clause
// Runs a program and takes what it says. No shell is involved.
#pragma once

#include "libstep/core/result.h"
#include "libstep/os/fd.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/types.h>

namespace dist_train {

// A running program. It is killed when it takes longer than its limit, or when this goes away.
class Command {
public:
  // words: a program, looked up in PATH, and its arguments. It begins with no signal blocked and an
  // empty standard input. Any thread may call this.
  static Result<Command> start(std::vector<std::string> words, std::chrono::milliseconds limit);
  Command(Command&& other) noexcept;
  Command& operator=(Command&&) = delete;
  ~Command();

  // Takes what there is, without waiting. Nothing while the program runs. Once, when it has ended
  // with 0: what it wrote to both its outputs, without white space at the end, of which some 4 KiB
  // are kept; otherwise an error with that text in it.
  std::optional<Result<std::string>> look();

private:
  using Clock = std::chrono::steady_clock;
  Command(std::vector<std::string> words, std::chrono::milliseconds limit, Fd output, pid_t child);
  void end();

  std::vector<std::string> words_;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  Fd output_;
  pid_t child_; // 0: has ended
  std::string said_;
};

// The same, waiting for its end, or until nobody wants its words any more.
Result<std::string> run_command(const std::vector<std::string>& words,
                                std::chrono::milliseconds limit,
                                const std::stop_token& unwanted = {});

} // namespace dist_train
