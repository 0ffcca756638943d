// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/rank_map.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

const std::vector<std::string> kHosts{"n1", "n2", "n3"};

TEST(DealRanks, MatchesSlurmsDistributions) {
  struct Case {
    std::vector<std::uint32_t> counts;
    Distribution distribution;
    std::uint32_t plane;
    const char* layout;
  };
  for (const Case& c : {
           Case{{4, 1, 1}, Distribution::kBlock, 0, "n1=0-3;n2=4;n3=5"},
           Case{{4, 1, 1}, Distribution::kCyclic, 0, "n1=0,3-5;n2=1;n3=2"},
           Case{{2, 2, 2}, Distribution::kCyclic, 0, "n1=0,3;n2=1,4;n3=2,5"},
           Case{{4, 3, 2}, Distribution::kPlane, 2, "n1=0-1,6-7;n2=2-3,8;n3=4-5"},
           Case{{1, 0, 2}, Distribution::kBlock, 0, "n1=0;n3=1-2"},
       }) {
    auto map = deal_ranks(kHosts, c.counts, c.distribution, c.plane);
    ASSERT_TRUE(map);
    EXPECT_EQ(layout_text(*map), c.layout);
    EXPECT_EQ(*parse_layout(c.layout), *map);
  }
}

// Rounds must not walk over the hosts that have all their tasks: that took minutes.
TEST(DealRanks, TakesNoLongerForOneHostWithFarMoreTasksThanTheOthers) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 65536; ++i)
    hosts.push_back("n" + std::to_string(i));
  std::vector<std::uint32_t> counts(hosts.size(), 1);
  counts.back() = (1u << 20) - 65535;
  auto map = deal_ranks(hosts, counts, Distribution::kCyclic);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->nodes.back().ranks.size(), counts.back());
  EXPECT_EQ(map->nodes.back().ranks.front(), 65535u);
}

TEST(DealRanks, RefusesContradictions) {
  EXPECT_FALSE(deal_ranks(kHosts, {1, 1}, Distribution::kBlock));
  EXPECT_FALSE(deal_ranks(kHosts, {0, 0, 0}, Distribution::kBlock));
  EXPECT_FALSE(deal_ranks({"a", "a"}, {1, 1}, Distribution::kBlock));
  EXPECT_FALSE(deal_ranks(kHosts, {1u << 20, 1, 1}, Distribution::kBlock));
}

TEST(MakeRankMap, OrdersNodesByFirstRank) {
  auto map = make_rank_map({{"n1", {1, 2}}, {"n3", {0}}});
  ASSERT_TRUE(map);
  EXPECT_EQ(layout_text(*map), "n3=0;n1=1-2");
  EXPECT_EQ(world_size(*map), 3u);
  EXPECT_EQ(node_rank_of(*map, 0), 0u);
  EXPECT_EQ(node_rank_of(*map, 2), 1u);
}

// Their text could not be read back.
TEST(MakeRankMap, RefusesNamesThatNoHostHas) {
  for (const char* name : {"", "a;b", "a=b", "a b", "n[1-2]", "a\xff"})
    EXPECT_FALSE(make_rank_map({{name, {0}}})) << name;
}

TEST(ParseLayout, RefusesMalformed) {
  for (const char* bad : {"", ";", "n1", "=0", "n1=", "n1=0;", "n1=0;n1=1", "n1=0;n2=0", "n1=1",
                          "n1=0;n2=2", "n[1-2]=0-1", "n1,n2=0-1", "n 1=0", "n1=0-2000000", "n1=x"})
    EXPECT_FALSE(parse_layout(bad)) << bad;
}

} // namespace
} // namespace dist_train
