// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/roster.h"

#include <cstdio>

namespace dist_train {

Waiter Waiter::of(std::uint32_t rank, std::uint32_t id, std::int64_t wait_ms, TimePoint now) {
  // A year is as good as for ever, and cannot overflow the clock.
  constexpr std::int64_t kYear = std::int64_t{365} * 24 * 3600 * 1000;
  const bool forever = wait_ms < 0 || wait_ms > kYear;
  return {rank, id, wait_ms, forever ? TimePoint::max() : now + std::chrono::milliseconds(wait_ms)};
}

Answer answer(const Waiter& to, std::string body) {
  return {to.rank, to.id, STEP_OK,
          body.empty() ? nullptr : std::make_shared<const std::string>(std::move(body))};
}

Answer failure(const Waiter& to, step_err_t code, const Error& error) {
  return {to.rank, to.id, static_cast<std::uint8_t>(code), failure_body(error)};
}

Body failure_body(const Error& error) {
  return std::make_shared<const std::string>(error.message + "\n" + error.hint);
}

Error parse_failure(std::string_view body) {
  const std::size_t end = body.find('\n');
  if (end == std::string_view::npos)
    return Error{std::string(body)};
  return Error{std::string(body.substr(0, end)), std::string(body.substr(end + 1))};
}

std::string seconds_text(std::int64_t ms) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g s", static_cast<double>(ms) / 1000);
  return text;
}

std::vector<std::uint32_t> Roster::all(Presence presence) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < world(); ++rank)
    if (presence_[rank] == presence)
      ranks.push_back(rank);
  return ranks;
}

std::string iteration_text(std::int64_t iteration) {
  return iteration == kNoIteration ? "" : "last at iteration " + std::to_string(iteration);
}

void Roster::count_locals() {
  while (locals_.size() < nodes_.size() && !nodes_[locals_.size()].empty())
    locals_.push_back(on_node_[nodes_[locals_.size()]]++);
}

// What is in the brackets behind a rank, or a group of ranks that have it in common.
std::string Roster::details(std::uint32_t rank, bool alone) const {
  const std::string& node = nodes_[rank];
  std::string text = node;
  const auto add = [&](const std::string& part) {
    if (!part.empty())
      text += (text.empty() ? "" : ", ") + part;
  };
  if (alone && rank < locals_.size())
    add("local " + std::to_string(locals_[rank]));
  if (presence_[rank] == Presence::kAbsent)
    add("never joined");
  add(iteration_text(iterations_[rank]));
  return text;
}

std::string Roster::describe(const std::vector<std::uint32_t>& ranks) const {
  constexpr std::size_t kShown = 32; // groups; more than a person reads
  std::string text;
  std::size_t groups = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    // One group: neighbours in number, on one node, in one state.
    const std::uint32_t first = ranks[i];
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1 &&
           nodes_[ranks[end]] == nodes_[first] && presence_[ranks[end]] == presence_[first] &&
           iterations_[ranks[end]] == iterations_[first])
      ++end;
    if (++groups > kShown)
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += text.empty() ? "" : ", ";
    text += end - i == 1 ? "rank " + std::to_string(first)
                         : "ranks " + std::to_string(first) + "-" + std::to_string(ranks[end - 1]);
    if (const std::string more = details(first, end - i == 1); !more.empty())
      text += " (" + more + ")";
    i = end;
  }
  return text;
}

} // namespace dist_train
