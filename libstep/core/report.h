// SPDX-License-Identifier: BSD-3-Clause
// What people read of ranks: the mapping table that `verbose` shows, one row a rank, and who an
// error is of.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

// Texts are shown as they are; "-" stands for what is not known.
struct MappingRow {
  std::string node;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::string gpu = "-";
  std::string numa = "-";
  std::string cores = "-"; // ranges
  std::string nic = "-";
  std::string nic_class = "-";
};

// "gpu01 (rank 0)"
std::string rank_text(const MappingRow& rank);

// "gpu01 (rank 0): MESSAGE", hint and caret as they are.
Error said_by(const MappingRow& rank, Error error);

struct MappingHeader {
  std::string step; // "4711.0"
  std::string mode; // "torch", "torch fsdp"
  std::string size; // "world 16", "2 tasks" where each starts ranks of its own
  std::uint32_t nodes = 0;
  std::string master; // "gpu01 10.1.0.1:23811 (ib0)"
  double seconds = 0; // from launch to the last arrival
};

// The header line, the column titles and the rows sorted by rank, each line with "dist-train: "
// before it and a newline after.
std::string mapping_table(const MappingHeader& header, std::vector<MappingRow> rows);

} // namespace dist_train
