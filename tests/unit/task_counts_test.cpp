// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/task_counts.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(TaskCounts, Expands) {
  using Counts = std::vector<std::uint32_t>;
  EXPECT_EQ(*parse_task_counts("4,1(x2)"), (Counts{4, 1, 1}));
  EXPECT_EQ(*parse_task_counts("8"), (Counts{8}));
  EXPECT_EQ(*parse_task_counts("2(x3),1"), (Counts{2, 2, 2, 1}));
}

TEST(TaskCounts, RefusesMalformedAndHuge) {
  for (const char* bad : {"", ",", "4,", "4(x0)", "4(x", "4(2)", "4(x2", "(x2)", "-1", "a",
                          "1(x65537)", "1048577", "1048576,1", "1000(x60000)"})
    EXPECT_FALSE(parse_task_counts(bad)) << bad;
}

} // namespace
} // namespace dist_train
