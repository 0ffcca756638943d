// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/task_counts.h"

#include "libstep/core/host_list.h"
#include "libstep/core/text.h"

namespace dist_train {

Result<std::vector<std::uint32_t>> parse_task_counts(std::string_view text) {
  auto bad = [&](const std::string& why) {
    return Error{"not a list of tasks per node: " + quoted(text) + " (" + why + ")",
                 "such a list looks like 4,1(x2)"};
  };
  std::vector<std::uint32_t> counts;
  std::uint64_t total = 0;
  for (auto part : split(text, ',')) {
    auto open = part.find("(x");
    auto count = parse_number(part.substr(0, open), kMaxTasks);
    std::optional<std::uint64_t> repeat = 1;
    if (open != part.npos) {
      if (part.back() != ')')
        return bad("at " + quoted(part));
      repeat = parse_number(part.substr(open + 2, part.size() - open - 3), kMaxHosts);
    }
    if (!count || !repeat || *repeat == 0)
      return bad("at " + quoted(part));
    total += *count * *repeat;
    if (counts.size() + *repeat > kMaxHosts || total > kMaxTasks)
      return bad("too many");
    counts.insert(counts.end(), *repeat, static_cast<std::uint32_t>(*count));
  }
  if (counts.empty())
    return bad("empty");
  return counts;
}

} // namespace dist_train
