// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/report.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace dist_train {

namespace {

constexpr std::size_t kColumns = 8;
using Cells = std::array<std::string, kColumns>;

// Columns grow with their content; these are the least widths, and which align right.
constexpr std::array<std::size_t, kColumns> kLeast{6, 4, 5, 13, 4, 8, 14, 0};
constexpr std::array<bool, kColumns> kRight{false, true, true, false, true, false, false, false};

std::string line(const Cells& cells, const std::array<std::size_t, kColumns>& widths) {
  std::string text = "dist-train: ";
  for (std::size_t i = 0; i < kColumns; ++i) {
    std::string pad(widths[i] - std::min(widths[i], cells[i].size()), ' ');
    text += kRight[i] ? pad + cells[i] : cells[i] + pad;
    // Two blanks set off a column that follows a right-aligned one.
    text += i + 1 == kColumns ? "" : kRight[i] && !kRight[i + 1] ? "  " : " ";
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

} // namespace

std::string rank_text(const MappingRow& rank) {
  return rank.node + " (rank " + std::to_string(rank.rank) + ')';
}

Error said_by(const MappingRow& rank, Error error) {
  error.message = rank_text(rank) + ": " + error.message;
  return error;
}

std::string mapping_table(const MappingHeader& header, std::vector<MappingRow> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const MappingRow& a, const MappingRow& b) { return a.rank < b.rank; });
  std::vector<Cells> table{{"node", "rank", "local", "gpu", "numa", "cores", "nic", "class"}};
  for (const auto& row : rows)
    table.push_back({row.node, std::to_string(row.rank), std::to_string(row.local_rank), row.gpu,
                     row.numa, row.cores, row.nic, row.nic_class});
  auto widths = kLeast;
  for (const auto& cells : table)
    for (std::size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], cells[i].size());

  std::array<char, 32> ready{"not ready"};
  if (header.seconds >= 0)
    std::snprintf(ready.data(), ready.size(), "ready in %.2f s", header.seconds);
  std::string text = "dist-train: step " + header.step + "  " + header.mode + "  " + header.size +
                     " on " + std::to_string(header.nodes) +
                     (header.nodes == 1 ? " node" : " nodes") + "  master " + header.master + "  " +
                     ready.data() + '\n';
  for (const auto& cells : table)
    text += line(cells, widths);
  return text;
}

} // namespace dist_train
