// SPDX-License-Identifier: BSD-3-Clause
// Barrier, broadcast and gather on the server's side. Ranks count their collectives; the n-th of
// each meet in round n, which ends for all at once: complete, or failed for one and the same
// reason.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libstep/store/roster.h"

namespace dist_train {

class Collectives {
public:
  explicit Collectives(const Roster& roster) : roster_(roster) {}

  void handle(std::uint32_t rank, std::uint32_t id, Collective request, TimePoint now,
              std::vector<Answer>& out);

  void expire(TimePoint now, std::vector<Answer>& out);
  TimePoint next_deadline() const { return earliest_; }

  // The roster says how it left: a lost rank fails all open rounds, one that said goodbye those it
  // has not come to.
  void rank_gone(std::uint32_t rank, const Error& error, std::vector<Answer>& out);

private:
  struct Failure {
    step_err_t code;
    Error error;
  };
  struct Round {
    Collective shape; // of the first to come
    std::uint32_t first = 0;
    std::vector<bool> came;
    std::size_t count = 0;
    std::vector<Waiter> waiting;
    std::string data;
    std::optional<Failure> failed;
  };

  void contribute(Round& round, std::uint32_t rank, const Collective& request) const;
  void fail(Round& round, Failure why, std::vector<Answer>& out) const;
  std::optional<Failure> why_never(const Round& round) const;
  std::vector<std::uint32_t> missing(const Round& round) const;

  const Roster& roster_;
  std::map<std::uint64_t, Round> rounds_; // by number
  TimePoint earliest_ = TimePoint::max();
};

} // namespace dist_train
