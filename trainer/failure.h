// SPDX-License-Identifier: BSD-3-Clause
// How a step ends when something goes wrong: one rank says it in one line, and all are gone within
// seconds.
#pragma once

#include "libstep/core/result.h"

#include <libstep/step.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

namespace dist_train {

// Prints "dist-trainer: error: MESSAGE" and the hint below it to stderr, in one write.
void print_error(const Error& error);

// "rank 9 (gpu02, local 1)"
std::string describe_rank(const step_t* step, int rank);

// Something that must be the same on every rank: a hash of it, and what to call it.
struct Shared {
  const char* what = "";
  uint64_t hash = 0;
};
uint64_t hash_of(std::string_view bytes); // FNV-1a, equal on every machine

// Collective: every rank tells how its part of a phase went. Returns true when all went well and
// `shared` is the same everywhere. Else the lowest failing rank prints its error, saying on which
// ranks it failed if not on all; or rank 0 names the first rank that differs from it.
bool agree(step_t* step, const Result<void>& mine, double seconds, const Shared& shared = {});

// Watches for lost ranks from a thread of its own. When one is lost a single survivor prints
// "rank 9 (gpu02, local 1) left at step 1831; the others stop" and the process ends with 1.
// SIGTERM is taken by a thread too: it ends the process only after a moment, so that a step that
// Slurm kills because of a lost rank still says so.
class Watcher {
public:
  // Call before any other thread starts: it blocks SIGTERM for all of them.
  static void hold_signals();

  explicit Watcher(step_t* step);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // The optimizer step under way, counted from 1; 0 before training.
  void at_step(int64_t training_step) { training_step_ = training_step; }

  // This rank cannot go on while the others wait for it in a call that does not notice: prints the
  // error, unless another rank was first, and leaves, so that they see a lost rank. Never returns.
  [[noreturn]] void leave(const Error& error);

  // This rank cannot go on. Waits a moment, as the cause is often a lost rank, which ends the
  // process with the better message; then one of the failing ranks prints "rank 3 (node02, local 0)
  // failed at step 12: WHAT". Never returns.
  [[noreturn]] void fail(const std::string& what);

private:
  void watch();
  bool speak_first();

  step_t* step_;
  std::atomic<int64_t> training_step_ = 0;
  std::thread thread_;
};

} // namespace dist_train
