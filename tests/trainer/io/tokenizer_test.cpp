// SPDX-License-Identifier: BSD-3-Clause
// Files that are wrong, and the few things the comparison with the tokenizers package cannot show.
#include "trainer/tokenizer.h"

#include "temp_folder.h"
#include "tiny_tokenizer.h"
#include "trainer/tokenizer/added_tokens.h"
#include "trainer/tokenizer/regex.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

namespace dist_train {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

Result<Tokenizer> open_text(const std::string& text) {
  TempFolder folder;
  return Tokenizer::open(folder.write("tokenizer.json", text));
}
Result<Tokenizer> open_json(const json& tokenizer) { return open_text(tokenizer.dump()); }

std::string error_of(const Result<Tokenizer>& tokenizer) {
  return tokenizer ? "no error" : tokenizer.error().message;
}

// The error of the tiny tokenizer with one member changed.
std::string changed(const char* pointer, const json& value) {
  json tokenizer = tiny_tokenizer();
  tokenizer[json::json_pointer(pointer)] = value;
  return error_of(open_json(tokenizer));
}

void expect_part(const std::string& whole, const std::string& part) {
  EXPECT_NE(whole.find(part), std::string::npos) << whole;
}

TEST(Tokenizer, TinyOne) {
  const auto tokenizer = open_json(tiny_tokenizer());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocabulary_size(), 259);
  EXPECT_EQ(*tokenizer->encode("abcab c<|end|>\n"), (Ids{kAbc, kAb, ' ', 'c', kEnd, '\n'}));
  EXPECT_EQ(*tokenizer->encode("\u00e4"), (Ids{0xC3, 0xA4}));
  EXPECT_EQ(*tokenizer->encode(""), Ids{});
  EXPECT_EQ(*tokenizer->encode(std::string("\0", 1)), Ids{0});
}

TEST(Tokenizer, TextThatIsNotUtf8) {
  const auto tokenizer = open_json(tiny_tokenizer());
  const auto ids = tokenizer->encode("abc\xC3(");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().message, "not UTF-8 at byte 3 of the text");
}

TEST(Tokenizer, TwoModelsInOneThreadDoNotShareTheirMemory) {
  json other = tiny_tokenizer();
  other["model"]["merges"] = json::array();
  const auto one = open_json(tiny_tokenizer()), two = open_json(other);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*one->encode("abc"), Ids{kAbc});
    EXPECT_EQ(*two->encode("abc"), (Ids{'a', 'b', 'c'}));
  }
}

TEST(Tokenizer, ManyThreadsAgree) {
  const auto tokenizer = open_json(tiny_tokenizer());
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += "abc" + std::to_string(i * 7919) + (i % 3 ? " ab" : "<|end|>\u00e4");
  }
  const auto expected = *tokenizer->encode(text);
  std::vector<Ids> seen(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen) {
      threads.emplace_back([&] { mine = *tokenizer->encode(text); });
    }
  }
  for (const auto& mine : seen) {
    EXPECT_EQ(mine, expected);
  }
}

TEST(Tokenizer, AWordOfMegabytesIsNotQuadratic) { // quadratic: hours, and ctest's limit ends it
  const auto tokenizer = open_json(tiny_tokenizer());
  std::string text;
  for (int i = 0; i < 2'000'000; ++i) {
    text += "abc";
  }
  EXPECT_EQ(tokenizer->encode(text)->size(), 2'000'000u);
}

TEST(Tokenizer, FilesThatAreNone) {
  TempFolder folder;
  expect_part(error_of(Tokenizer::open(folder.path() + "/absent.json")),
              "absent.json: cannot open: No such file or directory");
  expect_part(error_of(Tokenizer::open(folder.path())), "is a directory");
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expect_part(error_of(Tokenizer::open(fifo)), "is not a regular file");
  expect_part(error_of(open_text("")), "tokenizer.json:1:1: not JSON");
  const std::string whole = tiny_tokenizer().dump();
  for (size_t i = 1; i < whole.size(); i += 97) {
    expect_part(error_of(open_text(whole.substr(0, i))), "not JSON");
  }
  expect_part(error_of(open_text("{\"model\": \"\xFF\"}")), "not JSON");
  expect_part(error_of(open_text("{\"model\": 1e999}")), "number overflow parsing '1e999'");
  expect_part(error_of(open_text("{\n \"model\": 1e999}")), "tokenizer.json:2:11: ");
  expect_part(error_of(open_text("{}" + std::string(1, '\0'))), "tokenizer.json:1:3: not JSON");
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  expect_part(error_of(open_text(nested(100))), "has no model");
  expect_part(error_of(open_text(nested(101))), ":1:101: nested deeper than 100 levels");
  expect_part(error_of(open_text("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": " +
                                 nested(300'000) + "}}}")),
              "nested deeper than 100 levels");
  expect_part(error_of(open_text("[\"\\\"" + std::string(300, '[') + "\"]")), "has no model");
  expect_part(error_of(open_text("[]")), "has no model");
  expect_part(error_of(open_text("{}")), "has no model");
}

TEST(Tokenizer, ModelsThatAreRefused) {
  expect_part(changed("/model", "BPE"), "tokenizer.model is of type ''");
  expect_part(changed("/model/type", "Unigram"), "tokenizer.model is of type 'Unigram'");
  expect_part(changed("/model/type", 3), "has a type that is a number");
  expect_part(changed("/model/dropout", 0.1), "has dropout, which is not supported");
  expect_part(changed("/model/byte_fallback", true), "has byte_fallback, which is not supported");
  expect_part(changed("/model/byte_fallback", "no"), "byte_fallback that is a string");
  expect_part(changed("/model/continuing_subword_prefix", "##"), "has continuing_subword_prefix");
  expect_part(changed("/model/end_of_word_suffix", "</w>"), "has end_of_word_suffix");
  expect_part(changed("/model/unk_token", "<unk>"), "unk_token '<unk>', which is not in the");
  expect_part(changed("/model/vocab", json::array()), "has no vocab");
  expect_part(changed("/model/vocab", nullptr), "has no vocab");
  for (const json& id : {json(-1), json(1.5), json("7"), json(2147483647u), json(1e300)}) {
    expect_part(changed("/model/vocab/a", id), "has the token 'a' with id");
  }
  expect_part(changed("/model/vocab/a", json::array({1})), "has the token 'a' with id a list,");
  expect_part(changed("/model/merges", nullptr), "has no list of merges");
  expect_part(changed("/model/merges/1", "a"), "model.merges[1] is no pair of tokens");
  expect_part(changed("/model/merges/1", "a b c"), "model.merges[1] is no pair of tokens");
  expect_part(changed("/model/merges/1", {"a", "b", "c"}), "model.merges[1] is no pair of tokens");
  expect_part(changed("/model/merges/1", {"a", 7}), "model.merges[1] is no pair of tokens");
  expect_part(changed("/model/merges/1", "ab zz"), "needs the token 'zz'");
  expect_part(changed("/model/merges/1", "ab d"), "needs the token 'abd'");
  EXPECT_EQ(changed("/model/dropout", 0.0), "no error");
  EXPECT_EQ(changed("/model/continuing_subword_prefix", ""), "no error");
}

TEST(Tokenizer, PretokenizersThatAreRefused) {
  expect_part(changed("/pre_tokenizer", nullptr), "has no pre_tokenizer");
  expect_part(changed("/pre_tokenizer", 1), "is of type ''");
  expect_part(changed("/pre_tokenizer/type", "Metaspace"), "pre_tokenizer is of type 'Metaspace'");
  expect_part(changed("/pre_tokenizer/use_regex", 1), "use_regex that is a number");
  expect_part(changed("/pre_tokenizer", {{"type", "Digits"}}), "does not end with ByteLevel");
  expect_part(changed("/pre_tokenizer", {{"type", "Sequence"}}), "has no list of pretokenizers");
  const json level = {{"type", "ByteLevel"}};
  const auto sequence = [&](const json& first) {
    return changed("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {first, level}}});
  };
  expect_part(sequence(level), "pretokenizers[1] comes after ByteLevel");
  const auto split = [&](const json& pattern, const json& behavior) {
    return sequence({{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}});
  };
  EXPECT_EQ(split({{"Regex", "a"}}, "Isolated"), "no error");
  expect_part(split({{"Regex", "a"}}, "isolated"), "unknown behavior 'isolated'");
  expect_part(split({{"Regex", "a"}}, nullptr), "unknown behavior ''");
  expect_part(split({{"Regex", "("}}, "Isolated"), "pattern '('");
  expect_part(split({{"Regex", "\\bx"}}, "Isolated"), "'\\b' at byte 0 is not supported");
  expect_part(split({{"Regex", 7}}, "Isolated"), "Regex that is a number");
  expect_part(split({{"Glob", "a"}}, "Isolated"), "without Regex or String");
  expect_part(split("a", "Isolated"), "without Regex or String");
  expect_part(split(nullptr, "Isolated"), "has no pattern");
  json nested = level;
  for (int i = 0; i < 20; ++i) {
    nested = {{"type", "Sequence"}, {"pretokenizers", {nested}}};
  }
  expect_part(changed("/pre_tokenizer", nested), "has too many steps");
}

TEST(Tokenizer, OtherPartsThatAreRefused) {
  expect_part(changed("/normalizer", {{"type", "NFC"}}), "normalizer is of type 'NFC'");
  EXPECT_EQ(changed("/normalizer", {{"type", "Sequence"}, {"normalizers", json::array()}}),
            "no error");
  expect_part(changed("/normalizer", {{"type", "Sequence"}, {"normalizers", {1}}}),
              "normalizer is of type 'Sequence'");
  expect_part(changed("/normalizer", 3), "normalizer is of type ''");
  expect_part(changed("/post_processor", {{"type", "Magic"}}), "post_processor is of type 'Magic'");
  EXPECT_EQ(changed("/post_processor", {{"type", "TemplateProcessing"}}), "no error");
  expect_part(changed("/added_tokens", 1), "added_tokens that are no list");
  expect_part(changed("/added_tokens/0", 1), "added_tokens[0] has no content");
  expect_part(changed("/added_tokens/0/id", -1), "added_tokens[0] has no content, or no id");
  expect_part(changed("/added_tokens/0/id", 1e18), "added_tokens[0] has no content, or no id");
  expect_part(changed("/added_tokens/0/content", "abc"), "'abc' has id 258, but");
  expect_part(changed("/added_tokens/0/single_word", true), "has single_word");
  expect_part(changed("/added_tokens/0/lstrip", "x"), "lstrip that is a string");
  expect_part(changed("/added_tokens/1", tiny_tokenizer()["added_tokens"][0]), "is listed twice");
}

TEST(Regex, RewrittenForPcre2) {
  EXPECT_EQ(*pcre2_pattern(R"(\p{Han}\P{L}\p{^Nd}[\p{Greek}])"),
            R"(\p{sc:Han}\P{L}\p{^Nd}[\p{sc:Greek}])");
  EXPECT_EQ(*pcre2_pattern("a{,3}b{2,}c{x}[]{1}+]"), "a{0,3}b{2,}c\\{x}[]{1}+]");
  EXPECT_EQ(*pcre2_pattern(R"(\v\u00e4[\v\S])"), R"(\x{b}\x{00e4}[\x{b}\S\x{180e}])");
  for (const char* refused :
       {R"(\h)", R"(\b)", R"(\1)", R"(\k<a>)", "a{2}+", "[a&&b]", "[a[b]]", "[[:alpha:]]", "(?m:.)",
        "(?<name>a)", "(?#x)", R"([\W])", R"(\)", R"(\xff)", R"(\p{L)", "(*UTF)a"}) {
    EXPECT_FALSE(pcre2_pattern(refused)) << refused;
  }
}

TEST(Regex, APatternThatNeedsTooManySteps) {
  const auto regex = Regex::compile("(a|aa)+$");
  ASSERT_TRUE(regex) << regex.error().message;
  std::vector<Piece> pieces;
  const auto cut = regex->cut(std::string(4'999, 'a') + "b", pieces);
  ASSERT_FALSE(cut);
  expect_part(cut.error().message, "pattern '(a|aa)+$' failed on a text of 5000 bytes");
}

TEST(AddedTokens, LongestAtEachPlace) {
  const AddedTokens tokens({{"ab", 1}, {"abcd", 2}, {"b", 3}, {"abcde!", 4}});
  std::vector<Segment> segments;
  tokens.cut("xabcdeabcb", segments);
  std::vector<std::pair<std::string, int>> seen;
  for (const auto& segment : segments) {
    seen.emplace_back(segment.text, segment.id);
  }
  const std::vector<std::pair<std::string, int>> expected = {{"x", -1}, {"abcd", 2}, {"e", -1},
                                                             {"ab", 1}, {"c", -1},   {"b", 3}};
  EXPECT_EQ(seen, expected);
}

} // namespace
} // namespace dist_train
