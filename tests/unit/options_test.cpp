// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/option_words.h"
#include "libstep/core/options.h"

#include <gtest/gtest.h>
#include <random>

namespace dist_train {
namespace {

TEST(Options, CanonicalTextMeansTheSame) {
  struct Case {
    const char* text;
    const char* canonical;
  };
  for (const Case& c : {
           Case{"", ""},
           Case{"(null)", ""},
           Case{"on", "torch"},
           Case{"torch,fsdp,verbose", "torch,fsdp,verbose"},
           Case{"verbose,ddp", "ddp,verbose"},
           Case{"mode=off", "off"},
           Case{"strategy=fsdp,mode=on", "torch,fsdp"},
           Case{"deepspeed,strategy=zero2", "deepspeed,zero2"},
           Case{"hsdp,mode=lightning", "lightning,hsdp"},
           Case{"zero2", "zero2"},
           Case{"nproc=auto,torchrun", "torchrun,nproc=auto"},
           Case{"nproc=4", "nproc=4"},
           Case{"omp=4,env=keep", "env=keep,omp=4"},
           Case{"omp=auto", "omp=auto"},
           Case{"port=23000-23100", "port=23000-23100"},
           Case{"iface=ib+10.0.0.0/8+^docker", "iface=ib+10.0.0.0/8+^docker"},
           Case{"iface=fd00::/8", "iface=fd00::/8"},
           Case{"wait=60,kill=no,limits=raise", "wait=60,kill=no,limits=raise"},
       }) {
    auto options = parse_options(c.text);
    ASSERT_TRUE(options) << c.text << ": " << options.error().message;
    EXPECT_EQ(canonical_text(*options), c.canonical);
    auto again = parse_options(canonical_text(*options), OptionSource::kResolved);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, *options);
  }
}

TEST(Options, RefusesWithTheWordACaretAndTheNearest) {
  struct Case {
    const char* text;
    const char* message;
    const char* caret;
  };
  for (const Case& c : {
           Case{"fspd", "unknown word 'fspd'",
                "  fspd\n  ^~~~   did you mean 'fsdp'?  --dist-train=help lists all"},
           Case{"1", "unknown word '1'",
                "  1\n  ^   did you mean 'on'?  --dist-train=help lists all"},
           Case{"false", "unknown word 'false'",
                "  false\n  ^~~~~   did you mean 'off'?  --dist-train=help lists all"},
           Case{"verbose,bnid=gpu", "unknown key 'bnid'",
                "  verbose,bnid=gpu\n          ^~~~   did you mean 'bind'?  --dist-train=help "
                "lists all"},
           Case{"wiat=3", "unknown key 'wiat'",
                "  wiat=3\n  ^~~~   did you mean 'wait'?  --dist-train=help lists all"},
           Case{"mode=torhc", "unknown value 'torhc' of mode",
                "  mode=torhc\n       ^~~~~   did you mean 'torch'?  --dist-train=help lists all"},
           Case{"omp=0", "bad value '0' of omp", "  omp=0\n      ^   possible: auto|keep|N"},
           Case{"omp=", "bad value '' of omp", "  omp=\n      ^   possible: auto|keep|N"},
           Case{"omp", "'omp' needs a value", "  omp\n  ^~~   write omp=auto|keep|N"},
           Case{"fsdp,fsdp", "'fsdp' is there twice", "  fsdp,fsdp\n       ^~~~   say it once"},
           Case{"fsdp,ddp", "'ddp' contradicts 'fsdp'",
                "  fsdp,ddp\n       ^~~   say one strategy only"},
           Case{"on,mode=off", "'mode' contradicts 'on'",
                "  on,mode=off\n     ^~~~   say one mode only"},
           Case{"fsdp,,ddp", "an empty word in 'fsdp,,ddp'",
                "  fsdp,,ddp\n       ^   remove the comma"},
           Case{"fsdp,strategy=zero2", "'strategy' contradicts 'fsdp'",
                "  fsdp,strategy=zero2\n       ^~~~~~~~   say one strategy only"},
           Case{"ray,nproc=4", "'nproc' is of mode torchrun, and this is mode 'ray'",
                "  ray,nproc=4\n      ^~~~~   remove it"},
           Case{"torchurn", "unknown word 'torchurn'",
                "  torchurn\n  ^~~~~~~~   did you mean 'torchrun'?  --dist-train=help lists all"},
           Case{"fs dp", "character ' ' is not possible here",
                "  fs dp\n    ^   --dist-train=help lists all"},
           Case{"\xff", "character '\\xff' is not possible here",
                "  ?\n  ^   --dist-train=help lists all"},
       }) {
    auto options = parse_options(c.text);
    ASSERT_FALSE(options) << c.text;
    EXPECT_EQ(options.error().message, c.message);
    EXPECT_EQ(options.error().caret, c.caret);
  }
}

TEST(Options, RefusesBadValues) {
  for (const char* bad : {"port=1-2",
                          "port=80-4000",
                          "port=30000",
                          "port=30000-29000",
                          "port=23000-70000",
                          "iface=",
                          "iface=a++b",
                          "iface=^",
                          "iface=a%b",
                          "omp=-1",
                          "omp=5000",
                          "wait=0",
                          "wait=1e3",
                          "wait=100000",
                          "kill=maybe",
                          "dry-run=yes",
                          "dryrun",
                          "limits=max",
                          "env=theirs",
                          "default=on",
                          "checks=warn",
                          "port=23000-23030",
                          ",",
                          "zero3",
                          "nproc=0",
                          "nproc=5000",
                          "torchrun,ray",
                          "bind=gpus",
                          "topology=/site.xml",
                          "="})
    EXPECT_FALSE(parse_options(bad)) << bad;
  EXPECT_TRUE(parse_options("iface=" + std::string(512, 'a')));
  EXPECT_FALSE(parse_options("iface=" + std::string(513, 'a')));
  EXPECT_FALSE(parse_options("iface=" + std::string(kMaxOptionText - 5, 'a')));
}

TEST(Options, AWordOfThePlugstackLineIsCalledOneAndStandsInTheHelp) {
  for (const char* word : {"topology=/x", "checks=warn", "default=on"}) {
    auto options = parse_options(word);
    ASSERT_FALSE(options) << word;
    EXPECT_NE(options.error().message.find("is a word of the site's plugstack line only"),
              std::string::npos);
  }
  EXPECT_NE(options_help().find("On the site's plugstack line only: topology=/FILE "
                                "checks=end|warn|off default=torch|on|off\n"),
            std::string::npos);
}

TEST(Options, LongTextsAreShownAroundThePlace) {
  auto options = parse_options("iface=" + std::string(200, 'a') + ",fspd");
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().caret, "  " + std::string(39, 'a') + ",fspd\n  " +
                                       std::string(40, ' ') +
                                       "^~~~   did you mean 'fsdp'?  --dist-train=help lists all");
}

TEST(Options, SourcesHaveTheirRules) {
  EXPECT_FALSE(parse_options("help", OptionSource::kEnvironment));
  EXPECT_FALSE(parse_options("mode=help", OptionSource::kEnvironment));
  EXPECT_TRUE(parse_options("on,fsdp", OptionSource::kEnvironment));
  EXPECT_TRUE(parse_options("dry-run"));
  EXPECT_FALSE(parse_options("dry-run", OptionSource::kEnvironment));
  EXPECT_FALSE(parse_options("dry-run", OptionSource::kPlugstack));
  EXPECT_TRUE(parse_options("checks=off", OptionSource::kPlugstack));
  EXPECT_FALSE(parse_options("checks=off", OptionSource::kEnvironment));
  EXPECT_FALSE(parse_options("checks=never", OptionSource::kPlugstack));
  // What srun tells the nodes may have come from anywhere.
  auto all = merge(*parse_options("dry-run,fsdp"),
                   *parse_options("checks=warn,default=on", OptionSource::kPlugstack));
  EXPECT_EQ(parse_options(canonical_text(all), OptionSource::kResolved).operator*(), all);
  auto site = parse_options("default=torch,port=24000-24999", OptionSource::kPlugstack);
  ASSERT_TRUE(site);
  EXPECT_EQ(site->mode, Mode::kTorch);
  EXPECT_FALSE(parse_options("torch", OptionSource::kPlugstack));
  for (const char* mode : {"help", "torchrun", "ray", "lightning"})
    EXPECT_FALSE(parse_options(std::string("default=") + mode, OptionSource::kPlugstack)) << mode;
  EXPECT_FALSE(parse_options("default=on,mode=off", OptionSource::kPlugstack));
}

TEST(Options, MergeTakesEachWordFromTheHighestVoice) {
  auto merged = merge(*parse_options("ddp,omp=2"), *parse_options("on,fsdp,wait=9"));
  EXPECT_EQ(canonical_text(merged), "torch,ddp,omp=2,wait=9");
  merged = merge(*parse_options("oversubscribe"), *parse_options("verbose"));
  EXPECT_EQ(canonical_text(merged), "verbose,oversubscribe");
}

// Whatever bytes come, there is a value whose canonical text means the same, or an error with a
// message; the same bytes on every run.
TEST(Options, AnyBytesGiveAValueOrAnError) {
  std::mt19937 random(1);
  const std::string_view pieces[] = {"fsdp", "ddp",   "on",      "off",  "mode",  "port", "iface",
                                     "omp",  "wait",  "dry-run", "=",    ",",     "+",    "^",
                                     "-",    "23000", "1",       "keep", "(null", "\xff", "%n",
                                     "",     ".",     "/8",      ":"};
  int values = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = random() % 8; n > 0; --n)
      text += pieces[random() % std::size(pieces)];
    auto options = parse_options(text);
    if (!options) {
      EXPECT_FALSE(options.error().message.empty()) << text;
      continue;
    }
    ++values;
    auto again = parse_options(canonical_text(*options));
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(*again, *options) << text;
  }
  EXPECT_GT(values, 1000);
}

TEST(Options, HelpNamesEveryWordAndKey) {
  auto help = options_help();
  for (const auto& row : kWords)
    EXPECT_NE(help.find("\n  " + std::string(row.word) + ' '), help.npos) << row.word;
  for (const auto& row : kKeys)
    EXPECT_EQ(help.find("\n  " + std::string(row.name) + '=') != help.npos, !row.plugstack_only)
        << row.name;
  for (std::size_t at = 0; at < help.size(); at = help.find('\n', at) + 1)
    EXPECT_LE(help.find('\n', at) - at, 100u);
}

} // namespace
} // namespace dist_train
