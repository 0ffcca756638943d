// SPDX-License-Identifier: BSD-3-Clause
// YAML as dist-train convert reads it: values, places, and what is refused.
#include "libstep/tools/convert/yaml.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

using Kind = YamlNode::Kind;

std::string error_of(const std::string& text) {
  const auto documents = read_yaml(text, "f");
  return documents ? "no error" : documents.error().message;
}

Kind kind_of(const std::string& text) {
  const auto documents = read_yaml("a: " + text + "\n", "f");
  return documents ? documents->at(0).items.at(0).kind : Kind::kNull;
}

TEST(Yaml, ScalarsHaveTheKindsThatKubernetesSees) {
  for (const char* text : {"true", "No", "on", "OFF", "yes"})
    EXPECT_EQ(kind_of(text), Kind::kBool) << text;
  for (const char* text : {"8", "-1", "+2.5", "1e3", "0x1f", ".5", "0o17", ".inf", "1_0"}) {
    const bool number = std::string(text) != "1_0"; // YAML 1.2's view of it
    EXPECT_EQ(kind_of(text), number ? Kind::kNumber : Kind::kText) << text;
  }
  for (const char* text : {"a", "'8'", "\"true\"", "!!str 8", "16Gi", "1.2.3", "1e", "nan"})
    EXPECT_EQ(kind_of(text), Kind::kText) << text;
  for (const char* text : {"~", "null", ""})
    EXPECT_EQ(kind_of(text), Kind::kNull) << text;
  EXPECT_EQ(kind_of("[1, 2]"), Kind::kList);
  EXPECT_EQ(kind_of("{b: 2}"), Kind::kMap);
}

TEST(Yaml, TextComesWithItsPlace) {
  const auto documents =
      read_yaml("---\n# nothing\n---\na: 1\nb:\n  - |\n    two\n    lines\n", "f");
  ASSERT_TRUE(documents);
  ASSERT_EQ(documents->size(), 1u);
  const auto& text = documents->at(0).items.at(1).items.at(0);
  EXPECT_EQ(text.text, "two\nlines\n");
  EXPECT_EQ(text.line, 6u);
  EXPECT_EQ(text.column, 5u);
}

TEST(Yaml, AliasesAndMergeKeysAreResolved) {
  const auto documents = read_yaml("a: &x {p: 1, q: 2}\nb: *x\nc:\n  q: 3\n  <<: *x\n", "f");
  ASSERT_TRUE(documents);
  const auto& map = documents->at(0);
  EXPECT_EQ(map.items.at(1).key, "b");
  EXPECT_EQ(map.items.at(1).items.at(1).text, "2");
  const auto& merged = map.items.at(2);
  ASSERT_EQ(merged.items.size(), 2u);
  EXPECT_EQ(merged.items.at(0).text, "3"); // its own wins
  EXPECT_EQ(merged.items.at(1).key, "p");
}

TEST(Yaml, ErrorsNameTheirPlace) {
  EXPECT_EQ(error_of("a: 1\nb: [1, 2\nc: 3\n").substr(0, 4), "f:3:");
  EXPECT_EQ(error_of("a: 1\n\tb: 2\n").substr(0, 4), "f:2:");
  EXPECT_EQ(error_of("a: 1\na: 2\n"), "f:2:1: the key 'a' comes twice in one map");
  EXPECT_EQ(error_of("a: !secret x\n"), "f:1:4: the tag '!secret' is not known here");
  EXPECT_EQ(error_of("a: !!python/tuple [x]\n"),
            "f:1:4: the tag 'tag:yaml.org,2002:python/tuple' is not known here");
  EXPECT_EQ(error_of("a: !x {b: c}\n"), "f:1:4: the tag '!x' is not known here");
  EXPECT_EQ(error_of("a: !!map {b: !!seq [!!str c]}\n"), "no error");
  EXPECT_EQ(error_of("a: \"x\\0y\"\n"), "f:1:4: a NUL character inside a text");
  EXPECT_EQ(error_of("{[1]: 2}\n"), "f:1:2: a key must be a text");
  EXPECT_EQ(error_of("a: 1\nb: *nowhere\n").substr(0, 4), "f:2:");
  EXPECT_EQ(error_of("a: &a [*a]\n"), "f:1:8: an alias of the value that it stands in");
}

TEST(Yaml, WhatIsNoTextIsRefused) {
  EXPECT_EQ(error_of("a: 1\nb: x\xff\n"), "f:2:5: not UTF-8: byte '\\xff'");
  EXPECT_EQ(error_of("a: \xc0\xaf\n"), "f:1:4: not UTF-8: byte '\\xc0'");     // an overlong '/'
  EXPECT_EQ(error_of("a: \xed\xa0\x80\n"), "f:1:4: not UTF-8: byte '\\xed'"); // half a pair
  EXPECT_EQ(error_of("a: \xe2\x82"), "f:1:4: not UTF-8: byte '\\xe2'");
  EXPECT_EQ(error_of("\x7f"
                     "ELF"),
            "f:1:1: a control character, '\\x7f': not a YAML file");
  EXPECT_EQ(error_of("a: \xe2\x82\xac \xf0\x9f\x98\x80\n"), "no error");
}

TEST(Yaml, BombsEndEarly) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'j'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i)
      bomb += std::string(i == 0 ? "*" : ", *") + char(c - 1);
    bomb += "]\n";
  }
  EXPECT_NE(error_of(bomb).find("more than 20000 values, aliases counted"), std::string::npos);
  const std::string large(500'000, 'x');
  for (const auto& text : {"a: &a " + large, "? &a " + large + "\n: 1"})
    EXPECT_NE(error_of(text + "\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n")
                  .find("more than 4 MiB of text, aliases counted"),
              std::string::npos);
  EXPECT_EQ(error_of(std::string(kMaxYamlBytes + 1, 'a')),
            "f: more than 1 MiB: not a job's manifest");
  EXPECT_EQ(error_of(std::string(200, '[')).substr(0, 4), "f:1:");
  EXPECT_EQ(error_of(std::string(100'000, '[')).substr(0, 4), "f:1:");
  EXPECT_EQ(error_of(std::string(100'000, '-')).substr(0, 2), "no"); // one long text
  std::string deep;
  for (std::size_t i = 0; i < 900; ++i)
    deep += std::string(i, ' ') + "a:\n";
  EXPECT_NE(error_of(deep), "no error");
}

} // namespace
} // namespace dist_train
