// SPDX-License-Identifier: BSD-3-Clause
// The real broker and its clients over loopback.
#include "libstep/os/connect.h"
#include "libstep/os/port.h"
#include "spank/broker.h"
#include "spank/broker_client.h"

#include <atomic>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace dist_train {
namespace {

using namespace std::chrono_literals;

Report report_of(std::uint32_t rank, std::uint32_t world) {
  Report report;
  report.world_size = world;
  report.row.node = "n" + std::to_string(rank);
  report.row.rank = rank;
  report.node_ranks = std::to_string(rank);
  report.want = Want::kLayout;
  if (rank == 0)
    report.master = Master{"n0", "10.0.0.1", "eth0", {23001, 23002, 23003}};
  return report;
}

class Served : public testing::Test {
protected:
  void SetUp() override {
    auto opened = Broker::open(std::nullopt);
    ASSERT_TRUE(opened);
    broker_ = *std::move(opened);
    address_ = {{"127.0.0.1"}, broker_->port(), broker_->token()};
  }
  std::unique_ptr<Broker> broker_;
  BrokerAddress address_;
};

TEST_F(Served, ManyTasksMeet) {
  ASSERT_TRUE(broker_->start({}));
  constexpr std::uint32_t kWorld = 64;
  std::atomic<int> ready = 0;
  std::vector<std::thread> tasks;
  for (std::uint32_t rank = 0; rank < kWorld; ++rank)
    tasks.emplace_back([&, rank] {
      auto result = ask(address_, report_of(rank, kWorld), 30s);
      if (result.reach == Reach::kAnswered && result.answer.status == Status::kReady &&
          result.answer.node_rank == rank && result.answer.master.address == "10.0.0.1")
        ++ready;
    });
  for (auto& task : tasks)
    task.join();
  EXPECT_EQ(ready, kWorld);
}

TEST_F(Served, ReportsSentBeforeTheThreadRunsAreServed) {
  mention(address_, report_of(0, 2)); // the kernel keeps it
  ASSERT_TRUE(broker_->start({}));
  auto result = ask(address_, report_of(1, 2), 10s);
  EXPECT_EQ(result.answer.status, Status::kReady);
}

TEST_F(Served, StrangersAndHalfMessagesDoNotDisturb) {
  ASSERT_TRUE(broker_->start({}));
  auto deadline = std::chrono::steady_clock::now() + 10s;
  std::vector<Fd> strangers;
  for (int i = 0; i < 300; ++i) { // more than it serves at once
    auto fd = connect_to("127.0.0.1", broker_->port(), deadline);
    ASSERT_TRUE(fd);
    std::string junk(i % 2 ? 10 : kReportSize, 'j');
    send(fd->get(), junk.data(), junk.size(), MSG_NOSIGNAL);
    if (i % 3 == 0)
      strangers.push_back(*std::move(fd));
  }
  auto stranger = address_;
  stranger.token[0] = static_cast<char>(stranger.token[0] ^ 1);
  EXPECT_EQ(exchange(stranger, report_of(0, 1), 5s).reach, Reach::kFailed);
  EXPECT_EQ(ask(address_, report_of(0, 1), 10s).answer.status, Status::kReady);
}

TEST_F(Served, WhoTakesEveryPlaceAndSaysNothingKeepsNobodyOut) {
  ASSERT_TRUE(broker_->start({}));
  auto deadline = std::chrono::steady_clock::now() + 30s;
  std::vector<Fd> silent;
  for (int i = 0; i < 600; ++i)
    silent.push_back(*connect_to("127.0.0.1", broker_->port(), deadline));
  auto result = ask(address_, report_of(0, 1), 20s);
  EXPECT_EQ(result.answer.status, Status::kReady) << result.error.message;
  EXPECT_LT(std::chrono::steady_clock::now(), deadline - 20s); // some places free up each half second
}

TEST_F(Served, AWaitingTaskLearnsThatSrunEnded) {
  ASSERT_TRUE(broker_->start({}));
  std::thread task([&] { EXPECT_EQ(ask(address_, report_of(1, 3), 60s).reach, Reach::kGone); });
  auto observer = report_of(2, 3);
  observer.node_list = "n[0-2]";
  Exchange seen;
  do
    seen = exchange(address_, observer, 5s);
  while (seen.reach == Reach::kAnswered && seen.answer.note != "n0"); // rank 1 has asked
  EXPECT_EQ(seen.answer.note, "n0");
  broker_.reset();
  task.join();
}

TEST_F(Served, AnOutOfTimeTaskKeepsItsLastAnswer) {
  ASSERT_TRUE(broker_->start({}));
  auto report = report_of(1, 2);
  report.node_list = "n[0-1]";
  auto result = ask(address_, report, 1s);
  ASSERT_EQ(result.reach, Reach::kAnswered);
  EXPECT_EQ(result.answer.status, Status::kPending);
  EXPECT_EQ(result.answer.note, "n0");
}

TEST_F(Served, NobodyListeningIsSaidAtOnce) {
  auto port = broker_->port();
  broker_.reset();
  auto result = exchange(address_, report_of(0, 1), 5s);
  EXPECT_EQ(result.reach, Reach::kNotThere);
  EXPECT_EQ(result.error.message,
            "cannot connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
}

TEST(Broker, StaysInItsRangeAndSaysWhenThatIsFull) {
  auto taken = *listen_on(0, false);
  auto port = port_of(taken);
  auto full = Broker::open(PortRange{port, port});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message,
            "no free port in SrunPortRange " + std::to_string(port) + "-" + std::to_string(port));
  taken.reset();
  auto opened = Broker::open(PortRange{port, port});
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->port(), port);
}

} // namespace
} // namespace dist_train
