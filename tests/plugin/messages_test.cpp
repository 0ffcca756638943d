// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/text.h"
#include "spank/broker_messages.h"
#include "spank/roll_call.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

const Token kToken = *parse_token("000102030405060708090a0b0c0d0eff");

Report report_of(std::uint32_t rank, const char* node, const char* ranks) {
  Report report;
  report.id = {4711, 2, 0};
  report.nonce.fill('n');
  report.world_size = 4;
  report.row = {node, rank, 0, "0000:1b:00.0", "1", "0-3", "mlx5_0:1", "PIX"};
  report.node_ranks = ranks;
  report.node_list = "n[1-3]";
  return report;
}

Report rank_zero(const char* node, const char* ranks) {
  auto report = report_of(0, node, ranks);
  report.master = Master{node, "10.0.0.3", "eth0", {23001, 23002, 23003, 23004, 5}};
  return report;
}

TEST(Token, HasOneText) {
  EXPECT_EQ(token_text(kToken), "000102030405060708090a0b0c0d0eff");
  for (const char* bad : {"", "00", "000102030405060708090A0B0C0D0EFF",
                          "000102030405060708090a0b0c0d0ef", "g00102030405060708090a0b0c0d0eff"})
    EXPECT_FALSE(parse_token(bad)) << bad;
}

TEST(Messages, AFailureArrivesAsItWasAndOneThatIsTooLongIsCut) {
  auto sent = rank_zero("n3", "0,2");
  sent.facts.emplace().plugin_version = "0.1.0";
  sent.failure = Error{"no interface fits iface=ib9", "there are: eth0", "iface=ib9\n      ^~~"};
  auto got = decode_report(*encode(sent, kToken), kToken);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got->failure);
  EXPECT_EQ(got->failure->message, sent.failure->message);
  EXPECT_EQ(got->failure->hint, sent.failure->hint);
  EXPECT_EQ(got->failure->caret, sent.failure->caret);
  EXPECT_EQ(got->node_ranks, "");
  EXPECT_EQ(got->node_list, "n[1-3]"); // what follows is in its place
  EXPECT_EQ(got->master->address, "10.0.0.3");
  EXPECT_EQ(got->facts->plugin_version, "0.1.0");

  // Ranks that are too scattered to be told do not keep the reason from being told.
  sent.node_ranks = std::string(5000, '1');
  sent.failure = Error{std::string(5000, 'm'), std::string(5000, 'h'), std::string(5000, 'c')};
  got = decode_report(*encode(sent, kToken), kToken);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->failure->message, std::string(768, 'm'));
  EXPECT_EQ(got->failure->hint, std::string(384, 'h'));
  EXPECT_EQ(got->failure->caret, std::string(384, 'c'));
  EXPECT_EQ(got->node_list, "n[1-3]");
}

TEST(Messages, AReportArrivesAsItWas) {
  auto sent = rank_zero("n3", "0,2");
  sent.facts = NodeFacts{"n3",       "0.1.0",    2,  8,  true, "mlx5_0,mlx5_1",       1024, 524288,
                         kUnlimited, 1ull << 36, 12, 24, 6,    "mlx5_7 is DOWN\nmore"};
  sent.want = Want::kLayout;
  sent.has_row = true;
  auto bytes = encode(sent, kToken);
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), kReportSize);
  auto got = decode_report(*bytes, kToken);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->nonce, sent.nonce);
  EXPECT_EQ(got->id.job, 4711u);
  EXPECT_EQ(got->id.step, 2u);
  EXPECT_EQ(got->want, Want::kLayout);
  EXPECT_TRUE(got->has_row);
  EXPECT_FALSE(got->failure);
  EXPECT_EQ(got->row.node, "n3");
  EXPECT_EQ(got->row.gpu, "0000:1b:00.0");
  EXPECT_EQ(got->row.nic_class, "PIX");
  EXPECT_EQ(got->row.cores, "0-3");
  EXPECT_EQ(got->node_ranks, "0,2");
  EXPECT_EQ(got->node_list, "n[1-3]");
  EXPECT_EQ(got->master->address, "10.0.0.3");
  EXPECT_EQ(got->master->ports, sent.master->ports);
  EXPECT_EQ(got->facts, sent.facts);
}

// What an earlier version does not know of lies in bytes that it left at zero.
TEST(Messages, AReportWithoutFactsHasNone) {
  auto sent = rank_zero("n3", "0");
  auto got = decode_report(*encode(sent, kToken), kToken);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->facts);
}

TEST(Messages, AnAnswerArrivesAsItWas) {
  Nonce nonce;
  nonce.fill('x');
  Answer sent;
  sent.status = Status::kReady;
  sent.master = {"n3", "fd00::3", "ib0", {1025, 1026, 0, 1028, 1}};
  sent.node_rank = 7;
  sent.node_count = 9;
  sent.layout = "n3=0;n1=1-3";
  auto bytes = encode(sent, kToken, nonce);
  ASSERT_EQ(answer_length(std::string_view(bytes).substr(0, kAnswerSize)), bytes.size());
  auto got = decode_answer(bytes, kToken, nonce);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, Status::kReady);
  EXPECT_EQ(got->master.node, "n3");
  EXPECT_EQ(got->master.address, "fd00::3");
  EXPECT_EQ(got->master.ports, sent.master.ports);
  EXPECT_EQ(got->node_rank, 7u);
  EXPECT_EQ(got->node_count, 9u);
  EXPECT_EQ(got->layout, sent.layout);
}

TEST(Messages, AnyChangedByteAndAnyOtherTokenIsRefused) {
  Nonce nonce{}, other_nonce{};
  other_nonce.fill('o');
  auto other_token = kToken;
  other_token[15] = 0;
  auto report = *encode(rank_zero("n3", "0"), kToken);
  EXPECT_FALSE(decode_report(report, other_token));
  for (std::size_t i = 0; i < report.size(); i += 7) {
    auto changed = report;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(decode_report(changed, kToken)) << i;
  }
  Answer sent;
  sent.layout = "n1=0";
  auto answer = encode(sent, kToken, nonce);
  EXPECT_FALSE(decode_answer(answer, other_token, nonce));
  EXPECT_FALSE(decode_answer(answer, kToken, other_nonce)); // an old answer
  for (std::size_t i = 0; i < answer.size(); i += 5) {
    auto changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 0x80);
    EXPECT_FALSE(decode_answer(changed, kToken, nonce)) << i;
  }
}

TEST(Messages, WrongLengthsAreRefused) {
  auto report = *encode(rank_zero("n3", "0"), kToken);
  EXPECT_FALSE(decode_report("", kToken));
  EXPECT_FALSE(decode_report(report.substr(1), kToken));
  EXPECT_FALSE(decode_report(report + "x", kToken));
  EXPECT_FALSE(answer_length(""));
  EXPECT_FALSE(answer_length(std::string(kAnswerSize, '\xff')));
  auto huge = rank_zero("n3", "0");
  huge.node_ranks.assign(5000, '1');
  EXPECT_FALSE(encode(huge, kToken));
}

TEST(RollCall, RankZeroIsEnoughInPlainLayouts) {
  RollCall roll;
  auto asking = report_of(3, "n1", "3");
  asking.want = Want::kMaster;
  auto answer = roll.take(asking);
  EXPECT_EQ(answer.status, Status::kPending);
  EXPECT_EQ(answer.note, "n2, n3");
  EXPECT_EQ(roll.take(rank_zero("n3", "0")).status, Status::kReady);
  answer = roll.take(asking);
  EXPECT_EQ(answer.status, Status::kReady);
  EXPECT_EQ(answer.master.address, "10.0.0.3");
  EXPECT_FALSE(roll.all_nodes_here());
}

TEST(RollCall, TheLayoutNeedsEveryNodeAndOrdersThemByRank) {
  RollCall roll;
  auto asking = report_of(1, "n1", "1,3");
  asking.want = Want::kLayout;
  roll.take(rank_zero("n3", "0"));
  EXPECT_EQ(roll.take(asking).note, "n2");
  roll.take(report_of(2, "n2", "2"));
  EXPECT_TRUE(roll.all_nodes_here());
  auto answer = roll.take(asking);
  EXPECT_EQ(answer.status, Status::kReady);
  EXPECT_EQ(answer.layout, "n3=0;n1=1,3;n2=2");
  EXPECT_EQ(answer.node_rank, 1u);
  EXPECT_EQ(answer.node_count, 3u);
}

TEST(RollCall, ContradictionsAndRankZerosFailureEndTheWaiting) {
  RollCall roll;
  auto asking = report_of(3, "n1", "3");
  asking.want = Want::kMaster;
  roll.take(asking);
  auto other = report_of(2, "n2", "2");
  other.world_size = 5;
  EXPECT_EQ(roll.take(other).status, Status::kFailed);
  EXPECT_EQ(roll.take(asking).status, Status::kFailed);
  EXPECT_EQ(roll.failures().at(0).message, "n2 (rank 2) says that the world is 5, others say 4");

  RollCall twice;
  twice.take(report_of(1, "n1", "0-1"));
  EXPECT_EQ(twice.take(report_of(1, "n2", "1-2")).status, Status::kFailed);

  RollCall more;
  more.take(report_of(0, "n1", "0-2"));
  EXPECT_EQ(more.take(report_of(3, "n2", "3-4")).status, Status::kFailed);
  EXPECT_EQ(more.failures().at(0).message,
            "the nodes contradict each other: they have 5 ranks, the world 4");
}

Report failing(std::uint32_t rank, const char* node, const std::string& why) {
  auto report = report_of(rank, node, "");
  report.failure = Error{why};
  return report;
}

TEST(RollCall, NobodyWaitsForARankZeroThatCannotStart) {
  RollCall roll;
  roll.take(failing(2, "n2", "no way to rank 0"));
  auto asking = report_of(1, "n1", "1");
  asking.want = Want::kMaster;
  EXPECT_EQ(roll.take(asking).status, Status::kPending);
  roll.take(failing(0, "n1", "no free port"));
  EXPECT_EQ(roll.take(asking).status, Status::kFailed);
  ASSERT_EQ(roll.failures().size(), 2u);
  EXPECT_EQ(roll.failures()[0].message, "n2 (rank 2): no way to rank 0");
  EXPECT_EQ(roll.failures()[1].message, "n1 (rank 0): no free port");
}

TEST(RollCall, AReasonOfManyRanksIsKeptOnceAndFewReasonsAreKept) {
  RollCall roll;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    roll.take(failing(rank, "n1", "the same"));
  ASSERT_EQ(roll.failures().size(), 1u);
  EXPECT_EQ(roll.failures()[0].message, "n1 (rank 0): the same");
  for (int i = 0; i < 100; ++i)
    roll.take(failing(1, "n1", std::to_string(i)));
  EXPECT_EQ(roll.failures().size(), 8u);
}

TEST(Listing, IsCut) {
  EXPECT_EQ(listing({}), "");
  EXPECT_EQ(listing({"a", "b"}), "a, b");
  EXPECT_EQ(listing(std::vector<std::string>(10, "n")), "n, n, n, n, n, n, n, n and 2 more");
}

} // namespace
} // namespace dist_train
