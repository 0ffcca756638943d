// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/host_list.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::size_t kMaxName = 255;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

Error bad(std::string_view text, const std::string& why) {
  return Error{"not a host list: " + quoted(text) + " (" + why + ")",
               "a host list looks like node[01-03,7],login"};
}

Error too_many(std::string_view text, std::size_t most) {
  return bad(text, "more than " + std::to_string(most) + " hosts");
}

// "01-03,7" appended to each of `heads`.
Result<std::vector<std::string>> append_group(const std::vector<std::string>& heads,
                                              std::string_view group, std::string_view text,
                                              std::size_t room, std::size_t most) {
  std::vector<std::string> numbers;
  for (auto part : split(group, ',')) {
    auto dash = part.find('-');
    auto first_text = part.substr(0, dash);
    auto first = parse_number(first_text, 999'999'999);
    auto last = dash == part.npos ? first : parse_number(part.substr(dash + 1), 999'999'999);
    if (!first || !last || *first > *last)
      return bad(text, "range " + quoted(part));
    if (numbers.size() + (*last - *first) + 1 > room)
      return too_many(text, most);
    for (auto n = *first; n <= *last; ++n) {
      auto digits = std::to_string(n);
      if (digits.size() < first_text.size())
        digits.insert(0, first_text.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }
  if (numbers.empty())
    return bad(text, "empty brackets");
  if (heads.size() * numbers.size() > room)
    return too_many(text, most);
  std::vector<std::string> names;
  names.reserve(heads.size() * numbers.size());
  for (const auto& head : heads)
    for (const auto& number : numbers)
      names.push_back(head + number);
  return names;
}

} // namespace

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

Result<std::vector<std::string>> expand_host_list(std::string_view text, std::size_t most) {
  std::vector<std::string> hosts;
  std::size_t at = 0;
  while (at < text.size()) {
    std::vector<std::string> names{""};
    bool any = false;
    for (; at < text.size() && text[at] != ','; any = true) {
      if (text[at] == '[') {
        auto close = text.find(']', at);
        if (close == text.npos)
          return bad(text, "a bracket is not closed");
        auto more = append_group(names, text.substr(at + 1, close - at - 1), text,
                                 most - hosts.size(), most);
        if (!more)
          return more.error();
        names = *std::move(more);
        at = close + 1;
      } else if (is_name_char(text[at])) {
        auto begin = at;
        while (at < text.size() && is_name_char(text[at]))
          ++at;
        for (auto& name : names)
          name += text.substr(begin, std::min<std::size_t>(at - begin, kMaxName + 1));
      } else {
        return bad(text, "character " + quoted(text.substr(at, 1)));
      }
      if (std::any_of(names.begin(), names.end(),
                      [](auto& name) { return name.size() > kMaxName; }))
        return bad(text, "a name of more than " + std::to_string(kMaxName) + " characters");
    }
    if (!any)
      return bad(text, "an empty name");
    if (hosts.size() + names.size() > most)
      return too_many(text, most);
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (at < text.size() && ++at == text.size())
      return bad(text, "an empty name");
  }
  return hosts;
}

} // namespace dist_train
