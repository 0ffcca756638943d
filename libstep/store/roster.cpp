// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/roster.h"

#include <algorithm>
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

std::string Roster::describe(const std::vector<std::uint32_t>& ranks) const {
  constexpr std::size_t kShown = 32; // groups; more than a person reads
  std::string text;
  std::size_t groups = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    // One group: neighbours in number, on one node, in one state.
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1 &&
           nodes_[ranks[end]] == nodes_[ranks[i]] && presence_[ranks[end]] == presence_[ranks[i]])
      ++end;
    if (++groups > kShown)
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += text.empty() ? "" : ", ";
    text += end - i == 1
                ? "rank " + std::to_string(ranks[i])
                : "ranks " + std::to_string(ranks[i]) + "-" + std::to_string(ranks[end - 1]);
    const bool absent = presence_[ranks[i]] == Presence::kAbsent;
    const std::string& node = nodes_[ranks[i]];
    if (absent || !node.empty())
      text += " (" + node + (absent && !node.empty() ? ", " : "") + (absent ? "never joined" : "") +
              ")";
    i = end;
  }
  return text;
}

} // namespace dist_train
