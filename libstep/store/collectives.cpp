// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/collectives.h"

#include <algorithm>
#include <utility>

namespace dist_train {
namespace {

std::string shape_text(const Collective& shape) {
  const std::string bytes = std::to_string(shape.length) + " bytes";
  switch (shape.pattern) {
  case Pattern::kBarrier:
    return "barrier";
  case Pattern::kBroadcast:
    return "broadcast from rank " + std::to_string(shape.root) + ", " + bytes;
  case Pattern::kGather:
    return "all-gather, " + bytes + " a rank";
  }
  return "unknown collective";
}

std::string name(const Collective& shape) {
  static constexpr const char* kNames[] = {"barrier", "broadcast", "all-gather"};
  return std::string(kNames[static_cast<std::size_t>(shape.pattern)]) + " (collective " +
         std::to_string(shape.number) + " of this step)";
}

bool same_shape(const Collective& a, const Collective& b) {
  return a.pattern == b.pattern && a.root == b.root && a.length == b.length;
}

// What a rank must bring along, or nothing when the request makes no sense.
std::optional<std::size_t> expected_size(const Collective& request, std::uint32_t rank,
                                         std::uint32_t world) {
  switch (request.pattern) {
  case Pattern::kBarrier:
    return request.length == 0 && request.root == 0 ? std::optional<std::size_t>(0) : std::nullopt;
  case Pattern::kBroadcast:
    if (request.length > STEP_VALUE_MAX || request.root >= world)
      return std::nullopt;
    return rank == request.root ? static_cast<std::size_t>(request.length) : 0;
  case Pattern::kGather:
    if (request.length > STEP_VALUE_MAX / world || request.root != 0)
      return std::nullopt;
    return static_cast<std::size_t>(request.length);
  }
  return std::nullopt;
}

} // namespace

std::vector<std::uint32_t> Collectives::missing(const Round& round) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < roster_.world(); ++rank)
    if (!round.came[rank])
      ranks.push_back(rank);
  return ranks;
}

// A rank that is gone and has not come will not come: the round need not wait for its deadline.
std::optional<Collectives::Failure> Collectives::why_never(const Round& round) const {
  if (!roster_.someone_gone())
    return std::nullopt;
  std::vector<std::uint32_t> lost = roster_.all(Presence::kLost);
  if (!lost.empty())
    return Failure{STEP_ERR_LOST,
                   {name(round.shape) + ": " + roster_.describe(lost) +
                        (lost.size() == 1 ? " was lost" : " were lost"),
                    "look for the first error of that rank; the step cannot go on without it"}};
  std::vector<std::uint32_t> left = roster_.all(Presence::kLeft);
  std::erase_if(left, [&](std::uint32_t rank) { return round.came[rank]; });
  if (!left.empty())
    return Failure{STEP_ERR_LOST,
                   {name(round.shape) + ": " + roster_.describe(left) +
                        " called step_close() and will not come",
                    "every rank must call the same collectives before step_close()"}};
  return std::nullopt;
}

void Collectives::contribute(Round& round, std::uint32_t rank, const Collective& request) const {
  if (request.pattern == Pattern::kBroadcast && rank == request.root)
    round.data = request.data;
  if (request.pattern == Pattern::kGather) {
    round.data.resize(static_cast<std::size_t>(request.length) * roster_.world());
    std::copy(request.data.begin(), request.data.end(),
              round.data.begin() + static_cast<std::ptrdiff_t>(request.length * rank));
  }
}

void Collectives::fail(Round& round, Failure why, std::vector<Answer>& out) const {
  const Body body = failure_body(why.error);
  for (const Waiter& waiter : round.waiting)
    out.push_back({waiter.rank, waiter.id, static_cast<std::uint8_t>(why.code), body});
  round.waiting.clear();
  round.data = {};
  round.failed = std::move(why);
}

void Collectives::handle(std::uint32_t rank, std::uint32_t id, Collective request, TimePoint now,
                         std::vector<Answer>& out) {
  const Waiter waiter = Waiter::of(rank, id, request.wait_ms, now);
  const auto size = expected_size(request, rank, roster_.world());
  if (!size || *size != request.data.size())
    return out.push_back(
        failure(waiter, STEP_ERR_PROTOCOL,
                {"the store refused " + shape_text(request) + " of rank " + std::to_string(rank) +
                 " with " + std::to_string(request.data.size()) + " bytes of data"}));

  auto [entry, fresh] = rounds_.try_emplace(request.number);
  Round& round = entry->second;
  if (fresh) {
    round.first = rank;
    round.came.resize(roster_.world());
    round.shape = request;
    round.shape.data = {};
  }
  if (round.came[rank])
    return out.push_back(
        failure(waiter, STEP_ERR_PROTOCOL,
                {"rank " + std::to_string(rank) + " came twice to " + name(round.shape)}));
  round.came[rank] = true;
  ++round.count;

  round.waiting.push_back(waiter);
  if (round.failed) {
    Failure why = *round.failed;
    fail(round, std::move(why), out);
  } else if (!same_shape(request, round.shape)) {
    fail(round,
         {STEP_ERR_ARGUMENT,
          {"collective " + std::to_string(request.number) +
               " of this step: " + roster_.describe({rank}) + " called " + shape_text(request) +
               " where " + roster_.describe({round.first}) + " called " + shape_text(round.shape),
           "every rank must call the same collectives with the same sizes in the same order"}},
         out);
  } else {
    contribute(round, rank, request);
    if (round.count == roster_.world()) {
      const auto data = std::make_shared<const std::string>(std::move(round.data));
      for (const Waiter& to : round.waiting)
        out.push_back({to.rank, to.id, STEP_OK, data});
    } else if (auto never = why_never(round)) {
      fail(round, std::move(*never), out);
    } else {
      earliest_ = std::min(earliest_, waiter.deadline);
    }
  }
  if (round.count == roster_.world())
    rounds_.erase(entry);
}

void Collectives::expire(TimePoint now, std::vector<Answer>& out) {
  if (now < earliest_)
    return;
  earliest_ = TimePoint::max();
  for (auto& [number, round] : rounds_) {
    const auto late = std::find_if(round.waiting.begin(), round.waiting.end(),
                                   [&](const Waiter& waiter) { return waiter.deadline <= now; });
    if (late != round.waiting.end()) {
      const auto ranks = missing(round);
      const std::string within = seconds_text(late->wait_ms);
      fail(round,
           {STEP_ERR_TIMEOUT,
            {name(round.shape) + ": " + std::to_string(ranks.size()) + " of " +
                 std::to_string(roster_.world()) + " ranks did not come within " + within + ": " +
                 roster_.describe(ranks),
             "see what those ranks are doing, or give the collective more time"}},
           out);
      continue;
    }
    for (const Waiter& waiter : round.waiting)
      earliest_ = std::min(earliest_, waiter.deadline);
  }
}

void Collectives::rank_gone(std::uint32_t rank, const Error& error, std::vector<Answer>& out) {
  const bool lost = roster_.of(rank) == Presence::kLost;
  for (auto& [number, round] : rounds_) {
    // Its own requests have nobody left to answer.
    std::erase_if(round.waiting, [&](const Waiter& waiter) { return waiter.rank == rank; });
    if (!round.failed && (lost || !round.came[rank]))
      fail(round, {STEP_ERR_LOST, {name(round.shape) + ": " + error.message, error.hint}}, out);
  }
}

} // namespace dist_train
