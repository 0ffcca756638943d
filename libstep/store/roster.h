// SPDX-License-Identifier: BSD-3-Clause
// Who of the step is here, and answers on their way to ranks. Values only; the server's thread is
// the only one that touches them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libstep/core/result.h"
#include "libstep/store/socket.h"
#include "libstep/store/wire.h"

namespace dist_train {

using Body = std::shared_ptr<const std::string>;

struct Answer {
  std::uint32_t rank = 0;
  std::uint32_t id = 0;
  std::uint8_t kind = STEP_OK;
  Body body; // may be shared by many answers; null is empty
};

// A request whose answer is held back.
struct Waiter {
  std::uint32_t rank = 0;
  std::uint32_t id = 0;
  std::int64_t wait_ms = 0;
  TimePoint deadline = TimePoint::max();

  static Waiter of(std::uint32_t rank, std::uint32_t id, std::int64_t wait_ms, TimePoint now);
};

Answer answer(const Waiter& to, std::string body = {});
Answer failure(const Waiter& to, step_err_t code, const Error& error);
// Failures travel as one text; the reverse of what failure() does.
Body failure_body(const Error& error);
Error parse_failure(std::string_view body);

std::string seconds_text(std::int64_t ms); // "30 s", "0.5 s"

std::string iteration_text(std::int64_t iteration); // "last at iteration 1831", or ""

enum class Presence : std::uint8_t { kAbsent, kHere, kLeft, kLost };

class Roster {
public:
  // nodes: name of each rank's node, "" where the launcher did not tell.
  explicit Roster(std::vector<std::string> nodes)
      : nodes_(std::move(nodes)), presence_(nodes_.size(), Presence::kAbsent),
        iterations_(nodes_.size(), kNoIteration) {
    count_locals();
  }

  std::uint32_t world() const { return static_cast<std::uint32_t>(nodes_.size()); }
  Presence of(std::uint32_t rank) const { return presence_[rank]; }
  void mark(std::uint32_t rank, Presence presence) {
    presence_[rank] = presence;
    someone_gone_ = someone_gone_ || presence > Presence::kHere;
  }
  // Whether any rank has left or was lost: a cheap look before all().
  bool someone_gone() const { return someone_gone_; }
  void name(std::uint32_t rank, std::string node) {
    nodes_[rank] = std::move(node);
    count_locals();
  }
  // The iteration of its program that a rank last told of.
  void at(std::uint32_t rank, std::int64_t iteration) { iterations_[rank] = iteration; }
  std::int64_t iteration(std::uint32_t rank) const { return iterations_[rank]; }

  std::vector<std::uint32_t> all(Presence presence) const;
  // "rank 2 (node02, local 1, last at iteration 1831)", "ranks 4-7 (node03, never joined), rank 9
  // (node04, local 0)"; the ranks in rising order.
  std::string describe(const std::vector<std::uint32_t>& ranks) const;

private:
  std::string details(std::uint32_t rank, bool alone) const;
  void count_locals();

  std::vector<std::string> nodes_;
  std::vector<Presence> presence_;
  std::vector<std::int64_t> iterations_;
  bool someone_gone_ = false;
  // Local ranks follow the order of ranks: known of those before the first whose node is not.
  std::vector<std::uint32_t> locals_;
  std::unordered_map<std::string, std::uint32_t> on_node_; // of those in locals_
};

} // namespace dist_train
