// SPDX-License-Identifier: BSD-3-Clause
// All tasks of a step at once ask srun's broker where rank 0 is, as the plugin's tasks do, but from
// one thread: thousands of processes on one machine would measure that machine.
// usage: bench_broker_tasks PORT TOKEN master|layout TASKS TASKS_PER_NODE
// Prints one JSON object: seconds until all, and until nine tenths, had their answer; connections
// made for each task. A task that is dropped asks again.
#include "libstep/os/fd.h"
#include "spank/broker_client.h"
#include "tests/bench/await_end.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <queue>
#include <random>

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace dist_train {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

Report report_of(std::uint32_t rank, std::uint32_t world, std::uint32_t per_node, Want want) {
  const std::uint32_t node = rank / per_node;
  const std::uint32_t first = node * per_node;
  Report report;
  report.world_size = world;
  report.want = want;
  report.id = {1, 0};
  report.row.rank = rank;
  report.row.local_rank = rank - first;
  report.row.node = "n" + std::to_string(node);
  report.node_ranks =
      std::to_string(first) + "-" + std::to_string(std::min(first + per_node, world) - 1);
  report.node_list = "n[0-" + std::to_string((world - 1) / per_node) + "]";
  if (rank == 0)
    report.master = Master{report.row.node, "10.0.0.1", "eth0", {23001, 23002, 23003}};
  return report;
}

struct Task {
  std::string report, in;
  Fd fd;
  std::size_t sent = 0;
  std::chrono::milliseconds pause = 2ms;
};

class Step {
public:
  Step(std::uint16_t port, Token token, Want want, std::uint32_t tasks, std::uint32_t per_node)
      : port_(port), token_(token), tasks_(tasks), epoll_(epoll_create1(EPOLL_CLOEXEC)),
        longest_pause_(longest_pause(report_of(0, tasks, per_node, want))) {
    for (std::uint32_t rank = 0; rank < tasks; ++rank)
      tasks_[rank].report = *encode(report_of(rank, tasks, per_node, want), token);
  }

  void run() {
    // Nodes start in no order; rank 0 is somewhere among them.
    std::vector<std::uint32_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
    begin_ = Clock::now();
    for (const auto rank : order) {
      connect(rank);
      serve(0ms);
    }
    while (seconds_.size() < tasks_.size()) {
      auto patience = 60'000ms;
      if (!pausing_.empty())
        patience = std::chrono::ceil<std::chrono::milliseconds>(
            std::max(pausing_.top().first - Clock::now(), Clock::duration(0)));
      if (serve(patience) == 0 && pausing_.empty())
        give_up("nothing happened for a minute");
      for (; !pausing_.empty() && pausing_.top().first <= Clock::now(); pausing_.pop())
        connect(pausing_.top().second);
    }
    std::printf("{\"seconds\": %.4f, \"most\": %.4f, \"connections\": %.3f}\n", seconds_.back(),
                seconds_[tasks_.size() * 9 / 10],
                static_cast<double>(connections_) / static_cast<double>(tasks_.size()));
  }

private:
  [[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "bench_broker_tasks: %s; %zu of %zu tasks have their answer\n",
                 why.c_str(), seconds_.size(), tasks_.size());
    std::exit(1);
  }

  void connect(std::uint32_t rank) {
    Task& task = tasks_[rank];
    task.fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    task.sent = 0;
    task.in.clear();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u32 = rank;
    ++connections_;
    if (!task.fd ||
        (::connect(task.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, task.fd.get(), &event) != 0)
      give_up(std::string("cannot connect: ") + std::strerror(errno));
  }

  int serve(std::chrono::milliseconds patience) {
    std::array<epoll_event, 256> events;
    const int count =
        epoll_wait(epoll_.get(), events.data(), events.size(), static_cast<int>(patience.count()));
    for (int i = 0; i < count; ++i)
      advance(events[static_cast<std::size_t>(i)].data.u32);
    return count;
  }

  void ask_again(std::uint32_t rank) {
    Task& task = tasks_[rank];
    task.fd.reset();
    pausing_.emplace(Clock::now() + task.pause, rank);
    task.pause = std::min(task.pause * 2, longest_pause_);
  }

  void advance(std::uint32_t rank) {
    Task& task = tasks_[rank];
    if (task.sent < task.report.size()) {
      const auto sent = send(task.fd.get(), task.report.data() + task.sent,
                             task.report.size() - task.sent, MSG_NOSIGNAL);
      if (sent < 0)
        return errno == EAGAIN ? void() : ask_again(rank);
      task.sent += static_cast<std::size_t>(sent);
      if (task.sent == task.report.size()) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u32 = rank;
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, task.fd.get(), &event);
      }
      return;
    }
    std::array<char, 65536> block;
    const auto got = recv(task.fd.get(), block.data(), block.size(), 0);
    if (got <= 0)
      return got < 0 && errno == EAGAIN ? void() : ask_again(rank);
    task.in.append(block.data(), static_cast<std::size_t>(got));
    if (task.in.size() < kAnswerSize)
      return;
    const auto length = answer_length(task.in);
    if (!length)
      give_up("what answers is not the broker");
    if (task.in.size() < *length)
      return;
    const auto answer = decode_answer(task.in, token_, Nonce{});
    if (!answer || answer->status == Status::kFailed)
      give_up("the broker's answer is wrong");
    if (answer->status == Status::kPending)
      return ask_again(rank);
    if (answer->master.address != "10.0.0.1")
      give_up("the broker's answer names another rank 0");
    task.fd.reset();
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin_).count());
  }

  std::uint16_t port_;
  Token token_;
  std::vector<Task> tasks_;
  Fd epoll_;
  std::chrono::milliseconds longest_pause_;
  using Moment = std::pair<Clock::time_point, std::uint32_t>;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> pausing_;
  Clock::time_point begin_;
  std::vector<double> seconds_; // of the tasks that know, as they came
  std::size_t connections_ = 0;
};

int run(int argc, char** argv) {
  if (argc != 6)
    return 2;
  const auto token = parse_token(argv[2]);
  const auto tasks = static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10));
  const auto per_node = static_cast<std::uint32_t>(std::strtoul(argv[5], nullptr, 10));
  const rlimit limit{tasks + 100, tasks + 100};
  if (!token || tasks == 0 || per_node == 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 2;
  Step step(static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)), *token,
            std::string(argv[3]) == "layout" ? Want::kLayout : Want::kMaster, tasks, per_node);
  step.run();
  std::fflush(stdout);
  await_end_of_input();
  return 0;
}

} // namespace
} // namespace dist_train

int main(int argc, char** argv) { return dist_train::run(argc, argv); }
