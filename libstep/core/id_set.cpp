// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/id_set.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <iterator>

namespace dist_train {

Result<IdSet> parse_id_set(std::string_view text, std::size_t most) {
  IdSet set;
  for (auto part : split(text, ',')) {
    auto dash = part.find('-');
    auto first = parse_number(part.substr(0, dash), kMaxId);
    auto last = dash == part.npos ? first : parse_number(part.substr(dash + 1), kMaxId);
    if (!first || !last || *first > *last)
      return Error{"not a set of ids: " + quoted(text) + " (at " + quoted(part) + ")",
                   "write ids and ranges as in 0-3,8"};
    if (set.size() + (*last - *first) + 1 > most)
      return Error{"a set of more than " + std::to_string(most) + " ids: " + quoted(text),
                   "name fewer ids"};
    for (auto id = *first; id <= *last; ++id)
      set.push_back(static_cast<std::uint32_t>(id));
  }
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

std::string id_set_text(const IdSet& set) {
  std::string text;
  for (std::size_t i = 0; i < set.size();) {
    std::size_t end = i + 1;
    while (end < set.size() && set[end] == set[end - 1] + 1)
      ++end;
    if (!text.empty())
      text += ',';
    text += std::to_string(set[i]);
    if (end - i > 1)
      text += '-' + std::to_string(set[end - 1]);
    i = end;
  }
  return text;
}

IdSet intersection(const IdSet& a, const IdSet& b) {
  IdSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

IdSet united(const IdSet& a, const IdSet& b) {
  IdSet all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

} // namespace dist_train
