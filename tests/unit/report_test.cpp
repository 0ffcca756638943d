// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/report.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(MappingTable, IsSortedByRankAndAligned) {
  MappingHeader header{"4711.0", "torch", "world 2", 2, "gpu01 10.1.0.1:23811 (ib0)", 0.0412};
  std::vector<MappingRow> rows{
      {"gpu02", 1, 0, "0000:43:00.0", "0", "12-23", "mlx5_3:1", "PIX"},
      {"gpu01", 0, 0, "0000:1b:00.0", "0", "0-11", "mlx5_0:1", "PIX"},
  };
  EXPECT_EQ(mapping_table(header, rows),
            "dist-train: step 4711.0  torch  world 2 on 2 nodes  master gpu01 10.1.0.1:23811 (ib0)"
            "  ready in 0.04 s\n"
            "dist-train: node   rank local  gpu           numa  cores    nic            class\n"
            "dist-train: gpu01     0     0  0000:1b:00.0     0  0-11     mlx5_0:1       PIX\n"
            "dist-train: gpu02     1     0  0000:43:00.0     0  12-23    mlx5_3:1       PIX\n");
}

TEST(MappingTable, GrowsWithItsContentAndSaysWhenNotReady) {
  MappingHeader header{"1.0", "torch", "world 1", 1, "unknown", -1};
  auto text =
      mapping_table(header, {{"a-long-node-name", 0, 0, "-", "-", "0,2,4,6,8,10", "-", "-"}});
  EXPECT_EQ(text,
            "dist-train: step 1.0  torch  world 1 on 1 node  master unknown  not ready\n"
            "dist-train: node             rank local  gpu           numa  cores        nic    "
            "        class\n"
            "dist-train: a-long-node-name    0     0  -                -  0,2,4,6,8,10 -      "
            "        -\n");
}

} // namespace
} // namespace dist_train
