// SPDX-License-Identifier: BSD-3-Clause
#include "spank/decision.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

std::optional<Options> voice(const char* text, OptionSource source) {
  if (!text)
    return std::nullopt;
  return *parse_options(text, source);
}

TEST(Decide, TakesTheHighestVoiceThatSpeaks) {
  struct Case {
    const char *line, *environment, *inherited, *plugstack;
    const char* decided;
  };
  constexpr const char* kSilent = nullptr;
  for (const Case& c : {
           Case{kSilent, kSilent, kSilent, kSilent, "off"},
           Case{"", kSilent, kSilent, kSilent, "torch"},
           Case{"fsdp", kSilent, kSilent, kSilent, "torch,fsdp"},
           Case{"off", "on", "on", "default=on", "off"},
           Case{kSilent, "on", "off", kSilent, "torch"},
           Case{kSilent, "off", "on", kSilent, "off"},
           Case{kSilent, "verbose", kSilent, kSilent, "off,verbose"},
           Case{kSilent, "verbose", "", kSilent, "torch,verbose"},
           Case{kSilent, kSilent, "fsdp", kSilent, "torch,fsdp"},
           Case{"verbose", kSilent, "fsdp", kSilent, "torch,fsdp,verbose"},
           Case{"ddp", "omp=2", "fsdp,omp=3", "omp=4,wait=9", "torch,ddp,omp=2,wait=9"},
           Case{"verbose", kSilent, "off", kSilent, "torch,verbose"},
           Case{"strategy=zero2", kSilent, "deepspeed", kSilent, "deepspeed,zero2"},
           Case{"torchrun", "nproc=4", kSilent, kSilent, "torchrun,nproc=4"},
           Case{"jax", "nproc=4", kSilent, kSilent, "jax"},
           Case{kSilent, kSilent, kSilent, "default=on,omp=4", "torch,omp=4"},
           Case{kSilent, kSilent, kSilent, "omp=4", "off,omp=4"},
           Case{kSilent, kSilent, "", "default=off", "torch"},
       }) {
    Voices voices{voice(c.line, OptionSource::kCommandLine),
                  voice(c.environment, OptionSource::kEnvironment),
                  voice(c.inherited, OptionSource::kCommandLine),
                  voice(c.plugstack, OptionSource::kPlugstack)};
    EXPECT_EQ(canonical_text(decide(voices)), c.decided);
  }
}

TEST(Decision, DaemonsOfALauncherAreNoRanks) {
  auto mode = [](const char* line, const char* environment, const char* inherited) {
    Voices voices{voice(line, OptionSource::kCommandLine),
                  voice(environment, OptionSource::kEnvironment),
                  voice(inherited, OptionSource::kCommandLine),
                  voice("default=on", OptionSource::kPlugstack)};
    voices.by_launcher = true;
    return decide(voices).mode;
  };
  EXPECT_EQ(mode(nullptr, "on", "fsdp"), Mode::kOff);
  EXPECT_EQ(mode(nullptr, nullptr, nullptr), Mode::kOff);
  EXPECT_EQ(mode("", nullptr, nullptr), Mode::kTorch);
}

TEST(Decision, WhatTheUserAskedOfSlurmStaysWhereSlurmPutsIt) {
  auto bind = [](const char* line, CpuBind cpu_bind) {
    Voices voices;
    voices.line = *parse_options(line);
    voices.plugstack = *parse_options("bind=gpu", OptionSource::kPlugstack);
    return decide(voices, cpu_bind).bind;
  };
  EXPECT_EQ(bind("on", CpuBind::kUnsaid), BindRule::kGpu);
  EXPECT_EQ(bind("on", CpuBind::kBinds), BindRule::kKeep);
  EXPECT_EQ(bind("bind=numa", CpuBind::kBinds), BindRule::kKeep);
  EXPECT_EQ(bind("on", CpuBind::kNone), BindRule::kKeep);
  EXPECT_EQ(bind("bind=numa", CpuBind::kNone), BindRule::kNuma); // Slurm does not, we do
  EXPECT_EQ(bind("bind=none", CpuBind::kBinds), BindRule::kNone);
}

} // namespace
} // namespace dist_train
