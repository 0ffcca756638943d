// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/config.h"
#include "trainer/config_table.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

const std::string kPaths = R"("model_name_or_path": "m", "train_file": "t", "output_dir": "o")";

Result<Config> config_of(const std::string& members,
                         const std::vector<std::pair<std::string, std::string>>& overrides = {}) {
  return make_config("c.json", "{" + kPaths + (members.empty() ? "" : ", ") + members + "}",
                     overrides);
}

// The whole error as a person would read it.
std::string error_of(const std::string& text) {
  const auto config = make_config("c.json", text, {});
  return config ? "no error" : config.error().message + "\n" + config.error().hint;
}

#define EXPECT_ERROR(result, part)                                                                 \
  do {                                                                                             \
    const auto& r_ = (result);                                                                     \
    ASSERT_FALSE(r_) << "no error";                                                                \
    const std::string whole_ = r_.error().message + "\n" + r_.error().hint;                        \
    EXPECT_NE(whole_.find(part), std::string::npos) << whole_;                                     \
  } while (false)

TEST(Config, ReadsEveryTypeAndComments) {
  const auto c = make_config("c.json", R"({
    // the run
    "model_name_or_path": "m\u00e4", "train_file": "t", "output_dir": "o", /* rates */
    "learning_rate": 1e-4, "weight_decay": 1, "max_steps": 20, "bf16": true, "strategy": "ddp"
  })",
                             {});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->model_name_or_path, "m\xC3\xA4");
  EXPECT_EQ(c->learning_rate, 1e-4);
  EXPECT_EQ(c->weight_decay, 1.0); // an integer is a number
  EXPECT_EQ(c->max_steps, 20);
  EXPECT_TRUE(c->bf16);
  EXPECT_EQ(c->strategy, "ddp");
  EXPECT_EQ(c->block_size, 1024); // the default stays
}

TEST(Config, OverridesBeatTheFile) {
  const auto c = config_of(R"("max_steps": 20, "bf16": true)",
                           {{"max_steps", "30"}, {"bf16", "false"}, {"learning_rate", "3e-4"}});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->max_steps, 30);
  EXPECT_FALSE(c->bf16);
  EXPECT_EQ(c->learning_rate, 3e-4);
}

TEST(Config, WorksWithoutAFile) {
  const auto c =
      make_config("", "", {{"model_name_or_path", "m"}, {"train_file", "t"}, {"output_dir", "o"}});
  EXPECT_TRUE(c);
}

TEST(Config, PrintOutReadsBackTheSame) {
  const auto c =
      config_of(R"("learning_rate": 0.1, "adam_epsilon": 1e-12, "seed": 9007199254740991)");
  ASSERT_TRUE(c) << c.error().message;
  const auto again = make_config("again.json", config_json(*c), {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(config_json(*again), config_json(*c));
  EXPECT_EQ(again->seed, 9007199254740991);
}

TEST(Config, HelpAndPrintOutHaveEveryOption) {
  const std::string help = config_help(), json = config_json(Config{});
  for (const auto& option : config_options()) {
    EXPECT_NE(help.find(std::string("--") + option.name + " "), std::string::npos) << option.name;
    EXPECT_NE(json.find(std::string("\"") + option.name + "\""), std::string::npos) << option.name;
  }
}

TEST(Config, UnknownNameHasPlaceNearestNameAndCaret) {
  const auto c = make_config("c.json", "{\n  " + kPaths + ",\n  \"lerning_rate\": 1}", {});
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().message, "c.json:3:3: unknown option 'lerning_rate'");
  EXPECT_EQ(c.error().hint, "did you mean 'learning_rate'? --help lists all");
  EXPECT_EQ(c.error().caret, "  \"lerning_rate\": 1}\n  ^~~~~~~~~~~~~~");
}

TEST(Config, PlacesOfWrongValues) {
  struct Case {
    const char* value;
    const char* message;
  };
  for (const Case& k : {
           Case{"\"twenty\"",
                "c.json:2:14: max_steps is '\"twenty\"'; it must be an integer of at least -1"},
           Case{"1.5", "c.json:2:14: max_steps is '1.5'; it must be an integer of at least -1"},
           Case{"-2", "c.json:2:14: max_steps is '-2'; it must be an integer of at least -1"},
           Case{"true", "c.json:2:14: max_steps is 'true'; it must be an integer of at least -1"},
           Case{"null", "c.json:2:14: max_steps is 'null'; it must be an integer of at least -1"},
           Case{"99999999999999999999", "c.json:2:14: max_steps is '99999999999999999999'; it must "
                                        "be an integer of at least -1"},
           Case{"[1]", "c.json:2:14: the value of 'max_steps' is a list"},
           Case{"{}", "c.json:2:14: the value of 'max_steps' is an object"},
       }) {
    const std::string text = std::string("{\n\"max_steps\": ") + k.value + "\n, " + kPaths + "}";
    const auto c = make_config("c.json", text, {});
    ASSERT_FALSE(c) << k.value;
    EXPECT_EQ(c.error().message, k.message);
    EXPECT_NE(c.error().caret.find("\n             ^"), std::string::npos) << c.error().caret;
  }
}

TEST(Config, RangesAndChoices) {
  EXPECT_ERROR(config_of("\"adam_beta1\": 1"), "a number of at least 0 and below 1");
  EXPECT_ERROR(config_of("\"adam_epsilon\": 0"), "a number above 0");
  EXPECT_ERROR(config_of("\"learning_rate\": -1e-9"), "a number of at least 0");
  EXPECT_ERROR(config_of("\"block_size\": 1"), "an integer of at least 2 and at most 16777216");
  for (const char* seconds : {"0.5", "1e300", "10000001"}) {
    EXPECT_ERROR(config_of("", {{"step_timeout", seconds}}),
                 "a number of at least 1 and at most 10000000");
  }
  EXPECT_TRUE(config_of("\"step_timeout\": 1e7"));
  EXPECT_ERROR(config_of("\"strategy\": \"fspd\""), "did you mean 'fsdp'?");
  EXPECT_ERROR(config_of("\"output_file\": 1"), "unknown option 'output_file'");
  EXPECT_ERROR(config_of("\"validation_file\": \"a\\u0000b\""), "validation_file is");
  EXPECT_ERROR(config_of("", {{"learning_rate", "nan"}}),
               "--learning_rate: learning_rate is 'nan'");
  EXPECT_ERROR(config_of("", {{"learning_rate", "1e-4x"}}), "must be a number");
  EXPECT_ERROR(config_of("", {{"bf16", "maybe"}}), "must be true or false");
}

TEST(Config, FilesThatAreNoConfiguration) {
  EXPECT_EQ(error_of("").substr(0, 22), "c.json:1:1: not JSON: ");
  EXPECT_EQ(error_of("{\"seed\": 1").substr(0, 23), "c.json:1:11: not JSON: ");
  EXPECT_EQ(error_of("{\"seed\": 1,}").substr(0, 23), "c.json:1:12: not JSON: ");
  EXPECT_EQ(error_of("{\"seed\": 1} x").substr(0, 23), "c.json:1:13: not JSON: ");
  const std::string nul(1, '\0');
  EXPECT_EQ(error_of("{" + kPaths + "}" + nul + "x")
                .find("c.json:1:" + std::to_string(kPaths.size() + 3) + ": not JSON: a NUL byte"),
            0u);
  EXPECT_EQ(error_of("{\"seed\": \"\xFF\"}").substr(0, 23), "c.json:1:11: not JSON: ");
  EXPECT_NE(error_of("{\"seed\": 1e999}").find("number overflow parsing"), std::string::npos);
  EXPECT_NE(error_of("[]").find("the whole file is a list"), std::string::npos);
  EXPECT_NE(error_of("7").find("the whole file is one value"), std::string::npos);
  EXPECT_NE(error_of(std::string(1'000'000, '[')).find("a list"), std::string::npos);
  EXPECT_EQ(error_of("{\"seed\": 1,\n \"seed\": 1}"),
            "c.json:2:2: 'seed' is given twice, first at c.json:1:2\ndelete one of the two");
  EXPECT_NE(error_of("{\"a\\\"b\": 1, \"a\\\"b\": 2}").find("first at c.json:1:2"),
            std::string::npos);
}

TEST(Config, RequiredAndContradictingOptions) {
  EXPECT_NE(error_of("{}").find("model_name_or_path is missing"), std::string::npos);
  EXPECT_ERROR(config_of("\"output_dir\": \"\""), "given twice");
  EXPECT_ERROR(config_of("", {{"output_dir", ""}}), "--output_dir: output_dir is missing");
  EXPECT_ERROR(config_of("\"max_steps\": 0"), "nothing would be trained");
  EXPECT_ERROR(config_of("\"global_train_batch_size\": 8, \"gradient_accumulation_steps\": 2"),
               "both set the rows of a step");
  EXPECT_ERROR(config_of("\"global_train_batch_size\": 9, \"per_device_train_batch_size\": 2"),
               "not a multiple");
  EXPECT_ERROR(config_of("\"eval_steps\": 5"), "there is no validation_file");
  EXPECT_ERROR(config_of("\"warmup_steps\": 5, \"max_steps\": 4"), "more than max_steps");
  EXPECT_ERROR(config_of("\"lr_scheduler_type\": \"constant\", \"warmup_ratio\": 0.1"),
               "has no warm-up");
}

TEST(ConfigArguments, AllForms) {
  const auto a = parse_arguments({"c.json", "--max_steps=-1", "--learning_rate", "1e-3", "--bf16",
                                  "--save_model", "false", "--warmup-steps", "3", "--output_dir="});
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->file, "c.json");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"max_steps", "-1"},     {"learning_rate", "1e-3"}, {"bf16", "true"},
      {"save_model", "false"}, {"warmup_steps", "3"},     {"output_dir", ""}};
  EXPECT_EQ(a->overrides, expected);
  EXPECT_FALSE(a->help);
  EXPECT_TRUE(parse_arguments({"--help"})->help);
  EXPECT_EQ(parse_arguments({"--bf16", "c.json"})->file, "c.json"); // a file, not bf16's value
  EXPECT_EQ(parse_arguments({"--max_steps", "-1"})->overrides.at(0).second, "-1");
  const auto twice = parse_arguments({"--seed=1", "--seed=2"}); // the last counts
  ASSERT_EQ(twice->overrides.size(), 1u);
  EXPECT_EQ(twice->overrides[0].second, "2");
}

TEST(ConfigArguments, Refused) {
  EXPECT_ERROR(parse_arguments({"--max_step=1"}), "did you mean 'max_steps'?");
  EXPECT_ERROR(parse_arguments({"--max_steps"}), "--max_steps lacks its value");
  EXPECT_ERROR(parse_arguments({"--max_steps", "--bf16"}), "--max_steps lacks its value");
  EXPECT_ERROR(parse_arguments({"a.json", "b.json"}), "already 'a.json'");
  EXPECT_ERROR(parse_arguments({""}), "unexpected word ''");
  EXPECT_ERROR(parse_arguments({"-seed=1"}), "unknown option 'seed'");
  EXPECT_ERROR(parse_arguments({"--"}), "unknown option ''");
}

} // namespace
} // namespace dist_train
