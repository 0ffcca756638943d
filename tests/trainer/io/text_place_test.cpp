// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/text_place.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(TextPlace, CountsLinesAndCharacters) {
  const std::string text = "a\nb\xC3\xA4"
                           "c\n";
  EXPECT_EQ(place_text("f", text, 0), "f:1:1");
  EXPECT_EQ(place_text("f", text, 2), "f:2:1");
  EXPECT_EQ(place_text("f", text, 5), "f:2:3"); // the umlaut is one character
  EXPECT_EQ(place_text("f", text, 999), "f:3:1");
}

TEST(TextPlace, ExcerptPointsAtTheByte) {
  EXPECT_EQ(excerpt("one\ntwo three\nfour", 8, 5), "two three\n    ^~~~~");
  EXPECT_EQ(excerpt("", 0, 1), "\n^");
  EXPECT_EQ(excerpt("a\x1B[2Jb", 5, 1), "a?[2Jb\n     ^"); // no escape reaches the terminal
  EXPECT_EQ(excerpt("\xFF\xFE!", 2, 1), "?"
                                        "?!\n  ^");
  const std::string line(10'000, 'x');
  EXPECT_LT(excerpt(line, 5'000, 1).size(), 200u);
  EXPECT_LT(excerpt(line, 0, line.size()).size(), 200u); // nor does a wide mark make it long
}

TEST(TextPlace, QuoteIsShortAndPrintable) {
  EXPECT_EQ(quote("a\nb\xFF"), "'a?b?'");
  EXPECT_LT(quote(std::string(5'000, 'x')).size(), 80u);
}

TEST(TextPlace, NearestNameOrNone) {
  const std::vector<std::string> names = {"learning_rate", "warmup_steps", "bf16"};
  EXPECT_EQ(nearest_name("lerning_rate", names), "learning_rate");
  EXPECT_EQ(nearest_name("warmup_step", names), "warmup_steps");
  EXPECT_EQ(nearest_name("optimizer", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1'000'000, 'x'), names), std::nullopt);
}

// The examples are those of table 3-7 of the Unicode standard and one step outside of each row.
TEST(TextPlace, FindsWhatIsNotUtf8) {
  for (const char* good :
       {"", "ascii only, longer than eight", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF",
        "12345678\xF0\x9F\x98\x80 tail"}) {
    EXPECT_EQ(first_not_utf8(good), std::nullopt) << good;
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC2", "\xE1\x80", "\xF1\x80\x80", "\xFF"}) {
    EXPECT_EQ(first_not_utf8(bad), 0u) << bad;
    EXPECT_EQ(first_not_utf8(std::string("123456789") + bad), 9u) << bad;
  }
}

} // namespace
} // namespace dist_train
