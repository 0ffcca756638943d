// SPDX-License-Identifier: BSD-3-Clause
// The real broker and its clients over loopback.
#include "libstep/os/connect.h"
#include "libstep/os/port.h"
#include "spank/broker.h"
#include "spank/broker_client.h"
#include "tests/plugin/fake_slurm.h"

#include <arpa/inet.h>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <ctime>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Lowers this process' limit of open files, and puts it back.
class FewFiles {
public:
  explicit FewFiles(rlim_t more) {
    Fd next(dup(STDERR_FILENO));
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few{static_cast<rlim_t>(next.get()) + more, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

private:
  rlimit before_;
};

TEST_F(Served, SrunsOwnOpenFilesAreLeftToIt) {
  FewFiles few(100);
  ASSERT_TRUE(broker_->start({}));
  auto deadline = std::chrono::steady_clock::now() + 30s;
  std::vector<Fd> strangers, own;
  for (int i = 0; i < 50; ++i)
    strangers.push_back(*connect_to("127.0.0.1", broker_->port(), deadline));
  // Who comes last is answered when all before were let in.
  EXPECT_EQ(ask(address_, report_of(0, 1), 20s).answer.status, Status::kReady);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(own.emplace_back(dup(STDERR_FILENO)));
}

TEST_F(Served, WhereNoFileCanBeOpenedTheThreadDoesNotSpin) {
  FewFiles few(20);
  ASSERT_TRUE(broker_->start({}));
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<Fd> own;
  while (own.emplace_back(dup(STDERR_FILENO))) {
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(broker_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  auto begin = std::clock();
  char none = 0;
  pollfd answer{client.get(), POLLIN, 0};
  EXPECT_EQ(poll(&answer, 1, 1000), 0); // it waits in the kernel's queue
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 5);
  own.clear();
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(recv(client.get(), &none, 1, 0), 0); // let in, and let go
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

TEST_F(Served, AReasonIsSaidOnceAndBeforeAnybodyEndsBecauseOfIt) {
  fake_slurm = {};
  ASSERT_TRUE(broker_->start({}));
  std::thread other([&] {
    EXPECT_EQ(ask(address_, report_of(1, 3), 60s).answer.status, Status::kFailed);
    EXPECT_EQ(fake_slurm.errors.size(), 2u);
  });
  const Error why{"no interface fits iface=ib9", "there are: eth0"};
  EXPECT_TRUE(report_failure(address_, report_of(0, 3), why));
  const std::vector<std::string> said{"dist-train: n0 (rank 0): no interface fits iface=ib9",
                                      "dist-train: there are: eth0"};
  EXPECT_EQ(fake_slurm.errors, said);
  EXPECT_TRUE(report_failure(address_, report_of(2, 3), why));
  EXPECT_EQ(fake_slurm.errors, said);
  other.join();
}

TEST_F(Served, AReasonThatSrunDoesNotHearIsForTheTaskToSay) {
  EXPECT_FALSE(report_failure({}, report_of(0, 1), {"why"}));
  EXPECT_FALSE(report_failure(address_, report_of(0, 1), {"why"})); // it does not serve yet
  broker_.reset();
  EXPECT_FALSE(report_failure(address_, report_of(0, 1), {"why"}));
}

// A program in PATH of the name that Slurm's has. It says what is written to `answers`, a FIFO, and
// a line in `runs` counts it.
class WithSqueue : public Served {
protected:
  void SetUp() override {
    Served::SetUp();
    folder_ = std::filesystem::temp_directory_path() / ("squeue-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    ASSERT_EQ(mkfifo((folder_ / "answers").c_str(), 0600), 0);
    std::ofstream(folder_ / "squeue") << "#!/bin/sh\ncd '" << folder_.string()
                                      << "'\necho >>runs\nread -r text <answers\necho \"$text\"\n";
    std::filesystem::permissions(folder_ / "squeue", std::filesystem::perms::owner_all);
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_.string() + ':' + path_).c_str(), 1);
  }
  void TearDown() override {
    broker_.reset();
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  // A connection that has asked for the time left.
  Fd asking() {
    auto fd = connect_to("127.0.0.1", broker_->port(), std::chrono::steady_clock::now() + 10s);
    EXPECT_TRUE(fd);
    auto bytes = encode(request_, token_text(address_.token));
    send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return *std::move(fd);
  }
  std::optional<SrunAnswer> answer_to(const Fd& fd) {
    std::string bytes(kSrunAnswerSize, '\0');
    for (std::size_t got = 0; got < bytes.size();) {
      if (!wait_for(fd, Ready::kRead, std::chrono::steady_clock::now() + 30s))
        return std::nullopt;
      auto more = recv(fd.get(), bytes.data() + got, bytes.size() - got, 0);
      if (more <= 0)
        return std::nullopt;
      got += static_cast<std::size_t>(more);
    }
    return decode_srun_answer(bytes, token_text(address_.token), request_);
  }
  std::uintmax_t runs() {
    std::error_code none;
    auto size = std::filesystem::file_size(folder_ / "runs", none);
    return none ? 0 : size;
  }

  const SrunRequest request_{SrunWish::kTimeLeft, {'n'}};
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(WithSqueue, TasksMeetWhileSlurmsCommandRunsAndAllWhoAskWaitForTheSameOne) {
  ASSERT_TRUE(broker_->start({}));
  auto first = asking();
  while (runs() == 0) // it runs, and says nothing yet
    std::this_thread::yield();
  auto second = asking();
  auto gone = asking();
  gone.reset();
  EXPECT_EQ(exchange(address_, report_of(0, 1), 5s).answer.status, Status::kReady);
  std::ofstream(folder_ / "answers") << "4:13\n";
  for (const auto* fd : {&first, &second}) {
    auto answer = answer_to(*fd);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->done);
    EXPECT_EQ(answer->text, "4:13");
  }
  EXPECT_EQ(runs(), 1u);
}

TEST_F(WithSqueue, ACommandThatIsNotThereIsAnAnswer) {
  ASSERT_TRUE(broker_->start({}));
  setenv("PATH", "/nowhere", 1);
  auto answer = answer_to(asking());
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->done);
  EXPECT_EQ(answer->text, "cannot run squeue: No such file or directory");
}

TEST_F(WithSqueue, ACommandThatRunsWhenTheStepEndsIsNotWaitedForLong) {
  ASSERT_TRUE(broker_->start({}));
  auto waiting = asking();
  while (runs() == 0)
    std::this_thread::yield();
  auto begin = std::chrono::steady_clock::now();
  broker_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_FALSE(answer_to(waiting));
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
