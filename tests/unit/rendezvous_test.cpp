// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/rendezvous.h"

#include <gtest/gtest.h>
#include <set>

namespace dist_train {
namespace {

TEST(ReservedPorts, AreTakenInOrder) {
  EXPECT_EQ(**reserved_ports("12054-12056,12060"), (Ports{12054, 12055, 12056, 12060, 1}));
  EXPECT_EQ(**reserved_ports("12054-12055"), (Ports{12054, 12055, 0}));
  EXPECT_FALSE(*reserved_ports("12054-12055", Mode::kJax));
  EXPECT_EQ(**reserved_ports("12054-12056", Mode::kJax), (Ports{12054, 12055, 12056}));
  EXPECT_FALSE(*reserved_ports("10002-10009", Mode::kRay)); // among Ray's workers
  EXPECT_FALSE(*reserved_ports("19999-20001", Mode::kRay));
  EXPECT_EQ(**reserved_ports("20000-20001", Mode::kRay), (Ports{20000, 20001}));
  EXPECT_EQ(**reserved_ports("12054-12060,12062"), (Ports{12054, 12055, 12056, 12057, 4}));
  EXPECT_EQ(**reserved_ports("12054-12056,12060,12062"), (Ports{12054, 12055, 12056, 12060, 1}));
  EXPECT_EQ(*reserved_ports("12054"), std::nullopt);
  EXPECT_EQ(*reserved_ports(""), std::nullopt);
  for (const char* bad : {"0-3", "65535-65536", "x", "12054;12055"})
    EXPECT_FALSE(reserved_ports(bad)) << bad;
}

TEST(PortCandidates, StayInTheRangeAndNeverOverlap) {
  for (PortRange range :
       {PortRange{23000, 27999}, PortRange{1025, 1056}, PortRange{65500, 65535}}) {
    std::set<std::uint16_t> seen;
    EXPECT_GE(port_candidates(range), 3u);
    for (std::uint32_t attempt = 0; attempt < port_candidates(range); ++attempt) {
      auto ports = port_candidate({4711, 3, 0}, range, attempt);
      std::vector all{ports.master, ports.store, ports.jax};
      for (unsigned i = 0; i < ports.spare_count; ++i)
        all.push_back(static_cast<std::uint16_t>(ports.spare + i));
      EXPECT_EQ(all.size(), kPortBlock);
      for (auto port : all) {
        EXPECT_GE(port, range.low);
        EXPECT_LE(port, range.high);
        EXPECT_TRUE(seen.insert(port).second);
      }
    }
    EXPECT_EQ(port_candidate({4711, 3, 0}, range, port_candidates(range)),
              port_candidate({4711, 3, 0}, range, 0));
  }
}

TEST(PortCandidates, SpreadJobsStepsAndRestarts) {
  std::set<std::uint16_t> first;
  for (std::uint32_t job = 1; job <= 20; ++job)
    for (std::uint32_t step = 0; step < 5; ++step)
      first.insert(port_candidate({job, step, 0}, kDefaultPorts, 0).master);
  EXPECT_GE(first.size(), 90u); // of 100, over 625 blocks
  EXPECT_NE(port_candidate({1, 0, 0}, kDefaultPorts, 0),
            port_candidate({1, 0, 1}, kDefaultPorts, 0));
}

TEST(PortRanges, Overlap) {
  EXPECT_TRUE(overlap({10, 20}, {20, 30}));
  EXPECT_FALSE(overlap({10, 19}, {20, 30}));
  EXPECT_TRUE(overlap({10, 40}, {20, 30}));
}

TEST(HostPortText, BracketsIPv6) {
  EXPECT_EQ(host_port_text("10.0.0.1", 80), "10.0.0.1:80");
  EXPECT_EQ(host_port_text("fd00::1", 80), "[fd00::1]:80");
}

} // namespace
} // namespace dist_train
