// SPDX-License-Identifier: BSD-3-Clause
// A task's child that waits or is stuck in here can be ended: by Slurm, and else by itself.
#pragma once

#include <chrono>

namespace dist_train {

// Ends the process with a message and exit code 1 when it lives longer than `limit` and nothing
// shows that it is waiting rather than stuck. Meanwhile the process has a name of its own: where
// Slurm tracks processes by their parents (proctrack/linuxproc), it spares those called slurmstepd
// when it ends a step. On SIGTERM it ends with 1 as well, which hides no other task's exit code
// from srun, whose own is the highest. One at a time, in a process of one thread; it takes over
// SIGALRM and SIGTERM, and puts everything back.
class Watchdog {
public:
  explicit Watchdog(std::chrono::seconds limit);
  ~Watchdog();
  // A wait of the task has ended, or goes on for a good reason: the limit begins again. Nothing
  // happens where no watchdog is.
  static void still_alive();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

} // namespace dist_train
