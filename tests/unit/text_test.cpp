// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/text.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(ParseNumber, TakesDigitsUpToTheLimit) {
  EXPECT_EQ(parse_number("0", 0), 0u);
  EXPECT_EQ(parse_number("65535", 65535), 65535u);
  EXPECT_EQ(parse_number("0007", 10), 7u);
  EXPECT_EQ(parse_number("18446744073709551615", UINT64_MAX), UINT64_MAX);
}

TEST(ParseNumber, RefusesAllElse) {
  for (const char* bad :
       {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "65536", "99999999999999999999"})
    EXPECT_EQ(parse_number(bad, 65535), std::nullopt) << bad;
  EXPECT_EQ(parse_number("18446744073709551616", UINT64_MAX), std::nullopt);
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string_view>{"a", "", "b", ""}));
}

TEST(Quoted, ShowsHostileBytes) {
  EXPECT_EQ(quoted(std::string_view("a\0\x1b\xff", 4)), "'a\\x00\\x1b\\xff'");
  EXPECT_EQ(quoted("abcdef", 3), "'abc...'");
  EXPECT_EQ(quoted("abc", 3), "'abc'");
  EXPECT_EQ(quoted("a\x1b\x1b", 8), "'a\\x1b...'"); // the limit is of what is shown
}

TEST(Nearest, FindsOneEditAndSwaps) {
  std::vector<std::string_view> words{"fsdp", "ddp", "torch", "verbose", "off", "on"};
  EXPECT_EQ(nearest("fspd", words), "fsdp");
  EXPECT_EQ(nearest("torhc", words), "torch");
  EXPECT_EQ(nearest("verbos", words), "verbose");
  EXPECT_EQ(nearest("xxxxxxx", words), std::nullopt);
  EXPECT_EQ(nearest(std::string(1000, 'x'), words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
}

} // namespace
} // namespace dist_train
