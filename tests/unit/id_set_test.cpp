// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/id_set.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(IdSet, ReadsAndWritesRanges) {
  struct Case {
    const char* text;
    IdSet ids;
    const char* canonical;
  };
  for (const Case& c :
       {Case{"", {}, ""}, Case{"0", {0}, "0"}, Case{"0-3,8", {0, 1, 2, 3, 8}, "0-3,8"},
        Case{"8,0-1,1-2", {0, 1, 2, 8}, "0-2,8"}, Case{"5,4", {4, 5}, "4-5"}}) {
    auto set = parse_id_set(c.text);
    ASSERT_TRUE(set) << c.text;
    EXPECT_EQ(*set, c.ids) << c.text;
    EXPECT_EQ(id_set_text(*set), c.canonical);
  }
}

TEST(IdSet, RefusesMalformedAndHuge) {
  for (const char* bad :
       {",", "1,", "a", "3-1", "1-", "-1", "1--2", "0-2147483648", "0-99999999", "1 2", "0-3;4"})
    EXPECT_FALSE(parse_id_set(bad)) << bad;
}

} // namespace
} // namespace dist_train
