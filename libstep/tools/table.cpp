// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/table.h"

#include <algorithm>

namespace dist_train {

std::string table_text(std::vector<std::vector<std::string>> rows) {
  if (rows.empty())
    return "";
  std::vector<bool> right;
  for (auto& title : rows.front()) {
    right.push_back(title.starts_with('>'));
    if (right.back())
      title.erase(0, 1);
  }
  std::vector<std::size_t> widths(right.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string pad(widths[i] - row[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (right[i] ? pad + row[i] : row[i] + pad);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

} // namespace dist_train
