// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/stop_agreement.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

Roster three_here() {
  Roster roster({"a", "b", "c"});
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    roster.mark(rank, Presence::kHere);
  return roster;
}

TEST(StopAgreement, NothingIsDecidedUnasked) {
  const Roster roster = three_here();
  StopAgreement stop(roster);
  stop.report(0, 5); // of a broken member
  EXPECT_FALSE(stop.asked());
  EXPECT_EQ(stop.take_decision(), std::nullopt);
}

TEST(StopAgreement, TheFirstIterationThatNobodyHasPassed) {
  const Roster roster = three_here();
  StopAgreement stop(roster);
  EXPECT_TRUE(stop.begin("first"));
  EXPECT_FALSE(stop.begin("second"));
  EXPECT_EQ(stop.reason(), "first");
  stop.report(1, 7);
  EXPECT_EQ(stop.take_decision(), std::nullopt);
  stop.report(1, 99); // again: the first report counts
  stop.report(0, 9);
  EXPECT_EQ(stop.take_decision(), std::nullopt);
  stop.report(2, -3);
  EXPECT_EQ(stop.take_decision(), 10);
  EXPECT_EQ(stop.take_decision(), std::nullopt); // told once
  EXPECT_EQ(stop.decided(), 10);
  stop.report(2, 50);
  EXPECT_EQ(stop.decided(), 10);
}

TEST(StopAgreement, TheRosterDecidesWhoIsAwaited) {
  Roster roster({"a", "b", "c"});
  roster.mark(0, Presence::kHere);
  roster.mark(1, Presence::kHere);
  StopAgreement stop(roster);
  stop.begin("why");
  stop.report(0, 3);
  EXPECT_EQ(stop.take_decision(), std::nullopt);
  roster.mark(2, Presence::kHere); // joins meanwhile
  stop.roster_changed();
  stop.report(2, kNoIteration);
  EXPECT_EQ(stop.take_decision(), std::nullopt);
  roster.mark(1, Presence::kLost);
  stop.roster_changed();
  EXPECT_EQ(stop.take_decision(), 4);
}

TEST(StopAgreement, ALostRanksReportStillCounts) {
  Roster roster = three_here();
  StopAgreement stop(roster);
  stop.begin("why");
  stop.report(1, 8);
  roster.mark(1, Presence::kLost);
  stop.roster_changed();
  stop.report(0, 2);
  stop.report(2, 3);
  EXPECT_EQ(stop.take_decision(), 9);
}

TEST(StopAgreement, BeforeTheFirstIterationAllStopAtTheirFirst) {
  const Roster roster = three_here();
  StopAgreement stop(roster);
  stop.begin("why");
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    stop.report(rank, kNoIteration);
  EXPECT_EQ(stop.take_decision(), kNoIteration);
}

TEST(StopAgreement, TheLargestNumberDoesNotOverflow) {
  const Roster roster = three_here();
  StopAgreement stop(roster);
  stop.begin("why");
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    stop.report(rank, INT64_MAX);
  EXPECT_EQ(stop.take_decision(), INT64_MAX);
}

} // namespace
} // namespace dist_train
