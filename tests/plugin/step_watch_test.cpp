// SPDX-License-Identifier: BSD-3-Clause
#include "spank/step_watch.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

// Of a step of one task on each of n1, n2, n3.
Report report_of(std::uint32_t rank) {
  Report report;
  report.id = {4711, 0, 0};
  report.world_size = 3;
  report.row.node = "n" + std::to_string(rank + 1);
  report.row.rank = rank;
  report.node_ranks = std::to_string(rank);
  report.node_list = "n[1-3]";
  NodeFacts facts;
  facts.node = report.row.node;
  facts.plugin_version = DIST_TRAIN_RELEASE;
  facts.local_ranks = 1;
  facts.open_files = facts.open_files_hard = 1 << 20;
  facts.locked_memory = kUnlimited;
  facts.shared_memory = 1ull << 36;
  report.facts = facts;
  if (rank == 0)
    report.master = Master{"n1", "10.0.0.1", "eth0", {23001, 23002, 23003}};
  return report;
}

std::string all_of(const Remark& remark) {
  return remark.text + (remark.end ? "END " + remark.end->message : "");
}

TEST(StepWatch, AHealthyStepIsSilent) {
  StepWatch watch({}, 4000);
  RollCall roll;
  EXPECT_EQ(all_of(watch.look(roll, 0)), "");
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    roll.take(report_of(rank));
    EXPECT_EQ(all_of(watch.look(roll, rank)), "");
  }
  EXPECT_EQ(all_of(watch.look(roll, 100000)), "");
  EXPECT_EQ(watch.last_words(roll, 100000), "");
}

TEST(StepWatch, WhoIsMissingIsNamedSoonThenEachMinuteThenTheStepEnds) {
  StepWatch watch(*parse_options("wait=130"), 4000);
  RollCall roll;
  roll.take(report_of(0));
  roll.take(report_of(2));
  EXPECT_EQ(all_of(watch.look(roll, 1)), "");
  EXPECT_EQ(all_of(watch.look(roll, 14.9)), "");
  EXPECT_EQ(
      all_of(watch.look(roll, 15)),
      "dist-train: 2 of 3 nodes are here; waiting for n2 (no sign of it for 15 s). The plugin "
      "may be missing there, or cannot reach port 4000 of this host\n");
  EXPECT_EQ(all_of(watch.look(roll, 59)), "");
  EXPECT_NE(all_of(watch.look(roll, 60)), "");
  EXPECT_EQ(all_of(watch.look(roll, 119)), "");
  EXPECT_NE(all_of(watch.look(roll, 120)), "");
  EXPECT_EQ(all_of(watch.look(roll, 130.9)), "");
  EXPECT_EQ(all_of(watch.look(roll, 131)),
            "END n2 did not come within 130 s of the last node that did; the step is ended");
}

TEST(StepWatch, EveryArrivalStartsTheWaitAgain) {
  StepWatch watch(*parse_options("wait=10"), 4000);
  RollCall roll;
  roll.take(report_of(0));
  EXPECT_EQ(all_of(watch.look(roll, 5)), "");
  EXPECT_EQ(all_of(watch.look(roll, 14)), "");
  roll.take(report_of(1));
  EXPECT_FALSE(watch.look(roll, 14.5).end);
  EXPECT_FALSE(watch.look(roll, 24).end);
  EXPECT_TRUE(watch.look(roll, 24.5).end);
}

// A step on reserved ports does well without srun, whose port a firewall may close.
TEST(StepWatch, AStepOfWhichNothingIsHeardIsMentionedOnceAndNeverEnded) {
  StepWatch watch({}, 4000);
  RollCall roll;
  EXPECT_EQ(all_of(watch.look(roll, 59)), "");
  EXPECT_EQ(all_of(watch.look(roll, 60)),
            "dist-train: no node of the step has shown itself for 60 s. The plugin may be missing "
            "there, or cannot reach port 4000 of this host\n");
  EXPECT_EQ(all_of(watch.look(roll, 100000)), "");
}

TEST(StepWatch, AFailureThatATaskReportsIsSaidOnceAndNotTalkedOver) {
  StepWatch watch({}, 4000);
  RollCall roll;
  auto failed = report_of(0);
  failed.failure = Error{"no port is free", "end other programs"};
  roll.take(failed);
  auto remark = watch.look(roll, 400);
  EXPECT_EQ(all_of(remark), "");
  ASSERT_EQ(remark.failures.size(), 1u);
  EXPECT_EQ(remark.failures[0].message, "n1 (rank 0): no port is free");
  EXPECT_EQ(remark.failures[0].hint, "end other programs");
  roll.take(failed);
  remark = watch.look(roll, 401);
  EXPECT_EQ(all_of(remark), "");
  EXPECT_TRUE(remark.failures.empty());
}

TEST(StepWatch, TheTableComesOnceWithTheLastRow) {
  for (const char* words : {"verbose", "dry-run"}) {
    StepWatch watch(*parse_options(words), 4000);
    RollCall roll;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(all_of(watch.look(roll, 0.1)), "");
      auto report = report_of(rank);
      report.has_row = true;
      roll.take(report);
    }
    EXPECT_TRUE(watch.look(roll, 0.5).text.starts_with(
        "dist-train: step 4711.0  torch  world 3 on 3 nodes  master n1 10.0.0.1:23001 (eth0)  "
        "ready in 0.50 s\n"));
    EXPECT_EQ(all_of(watch.look(roll, 1)), "");
    EXPECT_EQ(watch.last_words(roll, 1), "");
  }
}

TEST(StepWatch, TheTableSaysWhatTheWordsMakeOfTheTasks) {
  for (const auto& [words, said] : {std::pair{"torch,fsdp", "torch fsdp  world 3 on 3 nodes  "},
                                    {"torchrun", "torchrun  3 tasks on 3 nodes  "},
                                    {"torchrun,nproc=4", "torchrun nproc=4  3 tasks on 3 nodes  "},
                                    {"ray", "ray  3 tasks on 3 nodes  "}}) {
    StepWatch watch(*parse_options(std::string(words) + ",verbose"), 4000);
    RollCall roll;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto report = report_of(rank);
      report.has_row = true;
      roll.take(report);
    }
    const auto text = watch.look(roll, 0.5).text;
    EXPECT_TRUE(text.starts_with(std::string("dist-train: step 4711.0  ") + said)) << text;
  }
}

TEST(StepWatch, NoTableFollowsAFailure) {
  StepWatch watch(*parse_options("verbose"), 4000);
  RollCall roll;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto report = report_of(rank);
    report.has_row = true;
    if (rank == 1)
      report.failure = Error{"no interface of n2 fits iface=eth9"};
    roll.take(report);
    EXPECT_EQ(all_of(watch.look(roll, 0.1)), "");
  }
  EXPECT_EQ(watch.last_words(roll, 0.2), "");
}

TEST(StepWatch, AnUnfinishedTableIsShownAtTheEnd) {
  StepWatch watch(*parse_options("verbose"), 4000);
  RollCall roll;
  auto report = report_of(1);
  report.has_row = true;
  roll.take(report);
  EXPECT_TRUE(watch.last_words(roll, 1).ends_with(
      "dist-train: 2 of 3 ranks did not report; no sign of n1, n3\n"));
}

TEST(StepWatch, ANodeThatNeverCameIsNamedWhenTheStepIsOver) {
  StepWatch watch(*parse_options("wait=20"), 4000);
  RollCall roll;
  EXPECT_EQ(watch.last_words(roll, 10), "");
  roll.take(report_of(0));
  roll.take(report_of(1));
  watch.look(roll, 0.1);
  EXPECT_EQ(watch.last_words(roll, 2), ""); // it may have failed before all were there
  EXPECT_TRUE(watch.last_words(roll, 10).starts_with("dist-train: nothing was heard of n3."));
  EXPECT_TRUE(watch.look(roll, 21).end);
  EXPECT_EQ(watch.last_words(roll, 21), "");
}

TEST(StepWatch, NodesThatDoNotFitTogetherAreNamedOnceUnlessTheSiteSaysOff) {
  for (auto rule : {CheckRule::kEnd, CheckRule::kWarn, CheckRule::kOff}) {
    Options options;
    options.checks = rule;
    StepWatch watch(options, 4000);
    RollCall roll;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto report = report_of(rank);
      report.facts->plugin_version = rank == 1 ? "0.0.9" : DIST_TRAIN_RELEASE;
      roll.take(report);
    }
    auto said = all_of(watch.look(roll, 1));
    EXPECT_EQ(said.find("n2") != said.npos, rule != CheckRule::kOff) << said;
    EXPECT_EQ(all_of(watch.look(roll, 2)), "");
  }
}

// A plugin of an earlier version says nothing about its node; the others are compared all the same.
TEST(StepWatch, FactsThatDoNotComeAreNotWaitedForLong) {
  StepWatch watch({}, 4000);
  RollCall roll;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto report = report_of(rank);
    if (rank == 2)
      report.facts.reset();
    else
      report.facts->plugin_version = rank == 1 ? "0.0.9" : DIST_TRAIN_RELEASE;
    roll.take(report);
  }
  EXPECT_EQ(all_of(watch.look(roll, 1)), "");
  EXPECT_NE(all_of(watch.look(roll, 4)).find("n2"), std::string::npos);
}

} // namespace
} // namespace dist_train
