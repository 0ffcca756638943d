// SPDX-License-Identifier: BSD-3-Clause
// Signals that ask a program to stop, remembered instead of obeyed. One object at a time in a
// process, as handlers are the process's.
#pragma once

#include "libstep/core/result.h"

#include <memory>
#include <string>
#include <vector>

namespace dist_train {

class StopSignals {
public:
  // From now on the signals are only remembered, with SA_RESTART, in this process alone. Slurm
  // signals every process of a step: a forked child (a data loader's worker) ignores them, but for
  // one sent by the process that forked it or by itself, which has its former effect.
  static Result<std::unique_ptr<StopSignals>> install(const std::vector<int>& signals);
  ~StopSignals(); // puts back what was there before, unless somebody else has changed it

  int caught() const; // the first that came, 0 if none

private:
  explicit StopSignals(std::vector<int> signals) : signals_(std::move(signals)) {}

  std::vector<int> signals_;
};

std::string signal_name(int signal); // "SIGTERM"; "signal 42"

} // namespace dist_train
