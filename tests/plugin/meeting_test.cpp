// SPDX-License-Identifier: BSD-3-Clause
// Tasks of invented steps on this machine, meeting through reserved ports, a broker, or neither.
#include "libstep/os/port.h"
#include "spank/broker.h"
#include "spank/meeting.h"
#include "spank/plain_layout.h"

#include <future>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dist_train {
namespace {

// Node n<i> with the ranks given; none of the names resolves.
SlurmFacts facts_of(std::uint32_t rank, const char* node, const char* ranks) {
  SlurmFacts facts;
  facts.id = {static_cast<std::uint32_t>(getpid()), 0, 0};
  facts.rank = rank;
  facts.world_size = 6;
  facts.node_ranks = *parse_id_set(ranks);
  while (facts.node_ranks[facts.local_rank] != rank)
    ++facts.local_rank;
  facts.node_name = node;
  facts.node_list = "dt-test-n[1-3]";
  facts.tasks_per_node = "4,1(x2)";
  facts.slurm_release = 2205;
  return facts;
}

TEST(PlainLayout, IsKnownWhereEveryNodeCanComputeIt) {
  auto facts = facts_of(4, "dt-test-n2", "4");
  auto layout = plain_layout(facts);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout_text(*layout), "dt-test-n1=0-3;dt-test-n2=4;dt-test-n3=5");
  facts = facts_of(1, "dt-test-n2", "1");
  facts.distribution = "cyclic:block";
  ASSERT_TRUE(plain_layout(facts));
  EXPECT_EQ(plain_layout(facts)->nodes[0].ranks, (IdSet{0, 3, 4, 5}));
  facts = facts_of(2, "dt-test-n2", "2");
  facts.distribution = "plane";
  facts.plane_size = 2;
  ASSERT_TRUE(plain_layout(facts));
}

TEST(PlainLayout, IsNotGuessed) {
  auto facts = facts_of(4, "dt-test-n2", "4");
  auto with = [&](auto change) {
    auto changed = facts;
    change(changed);
    return plain_layout(changed);
  };
  ASSERT_TRUE(plain_layout(facts));
  EXPECT_FALSE(with([](auto& f) { f.distribution = "arbitrary"; }));
  EXPECT_FALSE(with([](auto& f) { f.heterogeneous = true; }));
  EXPECT_FALSE(with([](auto& f) { f.slurm_release = 2605; }));
  EXPECT_FALSE(with([](auto& f) { f.slurm_release = 0; }));
  EXPECT_FALSE(with([](auto& f) { f.distribution = "cyclic"; })); // its ranks say otherwise
  EXPECT_FALSE(with([](auto& f) { f.distribution = "plane"; }));  // of unknown size
  EXPECT_FALSE(with([](auto& f) { f.node_name = "dt-test-n3"; }));
  EXPECT_FALSE(with([](auto& f) { f.world_size = 7; }));
  EXPECT_FALSE(with([](auto& f) { f.node_list = "dt-test-n[1-"; }));
  EXPECT_FALSE(with([](auto& f) { f.tasks_per_node = ""; }));
  EXPECT_FALSE(with([](auto& f) {
    f.slurm_release = 2605; // block too follows the topology
    f.distribution = "block";
  }));
  EXPECT_TRUE(with([](auto& f) {
    f.slurm_release = 2605;
    f.distribution = "plane";
    f.plane_size = 4;
  }));
}

class Meetings : public testing::Test {
protected:
  void SetUp() override {
    broker_ = *Broker::open(std::nullopt);
    address_ = {{"127.0.0.1"}, broker_->port(), broker_->token()};
    options_ = *parse_options("wait=20,iface=lo");
  }
  // All ranks at once; the result of facts[i] at index i.
  std::vector<Result<Meeting>> all(const std::vector<SlurmFacts>& facts) {
    std::vector<std::future<Result<Meeting>>> tasks;
    for (const auto& task : facts)
      tasks.push_back(std::async(std::launch::async, [&] {
        return meet(task, options_, address_, report(task));
      }));
    std::vector<Result<Meeting>> results;
    for (auto& task : tasks)
      results.push_back(task.get());
    return results;
  }
  Report report(const SlurmFacts& facts) const {
    return report_of(facts, options_, {facts.node_name, facts.rank, facts.local_rank});
  }
  std::unique_ptr<Broker> broker_;
  BrokerAddress address_;
  Options options_;
};

const char* node_of(std::uint32_t rank) {
  return rank < 4 ? "dt-test-n1" : rank == 4 ? "dt-test-n2" : "dt-test-n3";
}
const char* ranks_of(std::uint32_t rank) { return rank < 4 ? "0-3" : rank == 4 ? "4" : "5"; }

// 4+1+1 tasks.
std::vector<SlurmFacts> block_step() {
  std::vector<SlurmFacts> facts;
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    facts.push_back(facts_of(rank, node_of(rank), ranks_of(rank)));
  return facts;
}

TEST_F(Meetings, ThroughTheBrokerEveryRankHasRankZerosPorts) {
  ASSERT_TRUE(broker_->start({}));
  auto results = all(block_step());
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    ASSERT_TRUE(results[rank]) << results[rank].error().message;
    const auto& plan = results[rank]->plan;
    EXPECT_EQ(plan.rank, rank);
    EXPECT_EQ(plan.local_world_size, rank < 4 ? 4u : 1u);
    EXPECT_EQ(plan.node_rank, rank < 4 ? 0u : rank - 3);
    EXPECT_EQ(plan.master_address, "127.0.0.1");
    EXPECT_EQ(plan.ports, results[0]->plan.ports);
    EXPECT_EQ(bool(results[rank]->store), rank == 0);
  }
  EXPECT_EQ(port_of(results[0]->store), results[0]->plan.ports.store);
  EXPECT_EQ(port_of(results[0]->held), results[0]->plan.ports.master);
}

TEST_F(Meetings, ArbitraryLayoutsFollowTheReports) {
  ASSERT_TRUE(broker_->start({}));
  const char* nodes[] = {"dt-test-n3", "dt-test-n1", "dt-test-n2",
                         "dt-test-n1", "dt-test-n2", "dt-test-n2"};
  const char* ranks[] = {"0", "1,3", "2,4-5", "1,3", "2,4-5", "2,4-5"};
  std::vector<SlurmFacts> facts;
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    facts.push_back(facts_of(rank, nodes[rank], ranks[rank]));
    facts.back().distribution = "arbitrary";
  }
  auto results = all(facts);
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    ASSERT_TRUE(results[rank]) << results[rank].error().message;
    EXPECT_EQ(results[rank]->plan.layout, "dt-test-n3=0;dt-test-n1=1,3;dt-test-n2=2,4-5");
    EXPECT_EQ(results[rank]->plan.node_rank, rank == 0 ? 0u : rank % 2 == 1 && rank < 4 ? 1u : 2u);
  }
}

TEST_F(Meetings, ATakenPortMovesRankZeroToTheNextAndSrunTellsAll) {
  ASSERT_TRUE(broker_->start({}));
  auto facts = block_step();
  auto first = port_candidate(facts[0].id, kDefaultPorts, 0);
  auto taken = hold_port(first.master, false); // by one who may come back to it
  ASSERT_TRUE(taken) << taken.error().message;
  for (const auto& met : all(facts)) {
    ASSERT_TRUE(met) << met.error().message;
    EXPECT_EQ(met->plan.ports, port_candidate(facts[0].id, kDefaultPorts, 1));
  }
}

TEST_F(Meetings, RankZeroAtAnotherPortDoesNotStartWithoutTheOthers) {
  ASSERT_TRUE(broker_->start({}));
  options_.wait_seconds = 1;
  auto facts = block_step();
  auto taken = listen_on(port_candidate(facts[0].id, kDefaultPorts, 0).store, false);
  ASSERT_TRUE(taken) << taken.error().message;
  facts.resize(4);
  auto met = std::move(all(facts)[0]);
  ASSERT_FALSE(met);
  EXPECT_NE(met.error().message.find("dt-test-n2, dt-test-n3"), std::string::npos)
      << met.error().message;
}

TEST_F(Meetings, ANodeThatGetsNoAnswerFromRankZerosSaysSoAndItsOtherTasksDoNotAsk) {
  ASSERT_TRUE(broker_->start({}));
  auto zero = report(facts_of(0, "dt-test-n1", "0-3"));
  zero.master = Master{"dt-test-n1", "224.0.0.1", "", {23001, 23002, 23003, 0, 0}}; // a group
  ASSERT_EQ(exchange(address_, zero, std::chrono::seconds(5)).reach, Reach::kAnswered);
  options_.wait_seconds = 1;
  auto four = facts_of(4, "dt-test-n2", "4");
  auto met = meet(four, options_, address_, report(four));
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().message.find("no way to rank 0 on dt-test-n1: cannot connect to "
                                     "224.0.0.1:23003: "),
            0u)
      << met.error().message;
  EXPECT_NE(met.error().hint.find("23000-27999"), std::string::npos) << met.error().hint;
  four.local_rank = 1;
  EXPECT_TRUE(meet(four, options_, address_, report(four)));
}

TEST_F(Meetings, TakenReservedPortsAreAnErrorThatNamesThePort) {
  ASSERT_TRUE(broker_->start({}));
  auto facts = facts_of(0, "dt-test-n1", "0-3");
  auto taken = *listen_on(0, false);
  auto port = std::to_string(port_of(taken));
  // The store's, which is tried first: whoever may have the other does not matter.
  facts.reserved_ports = std::to_string(port_of(taken) - 1) + "-" + port;
  auto met = meet(facts, options_, address_, report(facts));
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().message, "cannot bind port " + port + ": Address already in use");
  // The others do not wait for it, and leave it to srun to say why.
  EXPECT_TRUE(report_failure(address_, report(facts), met.error()));
  auto other = facts_of(4, "dt-test-n2", "4");
  auto others = meet(other, options_, address_, report(other));
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().message, "");
}

TEST_F(Meetings, WithoutABrokerTheFirstCandidateIsTheMeetingPoint) {
  broker_.reset();
  auto zero = facts_of(0, "dt-test-n1", "0-3");
  auto met = meet(zero, options_, address_, report(zero));
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_EQ(met->plan.ports, port_candidate(zero.id, kDefaultPorts, 0));
  auto one = facts_of(1, "dt-test-n1", "0-3");
  auto other = meet(one, options_, address_, report(one));
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->plan.ports, met->plan.ports);
  EXPECT_EQ(other->plan.master_address, "127.0.0.1");
  auto four = facts_of(4, "dt-test-n2", "4");
  auto lost = meet(four, options_, address_, report(four));
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("cannot find an address of rank 0's node dt-test-n1"),
            std::string::npos)
      << lost.error().message;
}

TEST_F(Meetings, WithoutABrokerRankZeroDoesNotMoveAndNobodyWaitsForLong) {
  broker_.reset();
  auto zero = facts_of(0, "dt-test-n1", "0-3");
  zero.id.step = 1;
  auto ports = port_candidate(zero.id, kDefaultPorts, 0);
  {
    auto taken = listen_on(ports.store, false);
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_FALSE(meet(zero, options_, address_, report(zero)));
  }
  options_.wait_seconds = 1;
  auto one = facts_of(1, "dt-test-n1", "0-3");
  one.id.step = 1;
  auto alone = meet(one, options_, address_, report(one));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message.find("does not find rank 0 on dt-test-n1"), std::string::npos);
}

TEST_F(Meetings, ANodeThatNeverComesIsNamed) {
  ASSERT_TRUE(broker_->start({}));
  options_.wait_seconds = 1;
  auto facts = facts_of(4, "dt-test-n2", "4");
  // srun is to speak first; without its watch this task would, a little later.
  auto met = meet(facts, options_, address_, report(facts));
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().message,
            "waited 1 s for rank 0 on dt-test-n1; no sign of dt-test-n1, dt-test-n3");
}

} // namespace
} // namespace dist_train
