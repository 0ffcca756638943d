// SPDX-License-Identifier: BSD-3-Clause
// One iteration at which all ranks stop, though they are at different ones and none may wait for
// another. Each rank counts the iterations that it was told to go on after; while nobody wants to
// stop that costs no message. Once somebody does:
//
//   store -> ranks   stop asked: a rank tells the last iteration it passed, and from then on gives
//                    its program no answer about a later one
//   ranks -> store   reports, from the ranks' own reader threads: a program deep in a collective
//                    does not delay them
//   store -> ranks   stop at the largest reported iteration plus one: nobody has passed it, and
//                    everybody learns it before answering for it
//
// So each program waits for one exchange of messages, once. A rank that joins later is told on
// joining; one that is gone is not waited for. Values only; the server's thread is the only one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libstep/store/roster.h"

namespace dist_train {

class StopAgreement {
public:
  explicit StopAgreement(const Roster& roster) : roster_(roster), reported_(roster.world()) {}

  // False when a stop was asked for before: the first reason stays.
  bool begin(std::string reason);
  void report(std::uint32_t rank, std::int64_t passed);
  // The roster has been told of it: a rank joined, left or was lost.
  void roster_changed() { count_again_ = true; }

  bool asked() const { return asked_; }
  const std::string& reason() const { return reason_; }
  // The iteration to stop at, once; nothing while reports are missing or after it was taken.
  std::optional<std::int64_t> take_decision();
  std::optional<std::int64_t> decided() const { return decided_; }

private:
  const Roster& roster_;
  std::vector<bool> reported_;
  std::size_t awaited_ = 0;
  bool count_again_ = false;
  bool asked_ = false;
  std::string reason_;
  std::int64_t furthest_ = kNoIteration;
  std::optional<std::int64_t> decided_;
};

} // namespace dist_train
