// SPDX-License-Identifier: BSD-3-Clause
#include "spank/broker_client.h"

#include "libstep/os/connect.h"
#include "spank/watchdog.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/random.h>
#include <sys/socket.h>
#include <thread>

namespace dist_train {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kConnectTime = 5s; // to each of srun's addresses
constexpr int kTries = 3;         // where something answers, but wrong: srun may be overrun
constexpr auto kLookTime = 5s;
constexpr auto kMentionTime = 1s; // a firewall must not delay a step that needs no answer
constexpr std::chrono::seconds kExchangeTime = 30s; // srun answers at once, if at all
constexpr std::chrono::seconds kFailureTime = 3s;   // the task has another way to say it

// Reads until `wanted` bytes are there; false at the end of the stream, an error or the deadline.
bool receive(const Fd& fd, std::string& bytes, std::size_t wanted, Clock::time_point deadline) {
  while (bytes.size() < wanted) {
    std::array<char, 65536> block;
    if (!wait_for(fd, Ready::kRead, deadline))
      return false;
    auto got = recv(fd.get(), block.data(), std::min(block.size(), wanted - bytes.size()), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (got > 0)
      bytes.append(block.data(), static_cast<std::size_t>(got));
  }
  return true;
}

bool transmit(const Fd& fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    if (!wait_for(fd, Ready::kWrite, deadline))
      return false;
    auto sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    if (sent > 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

struct Reached {
  Fd fd;
  bool refused = false;
  Error error;
};

// When all tasks of a large step come at once, the kernel's queue on srun's host overflows, and who
// did not fit is let in at one of the next tries: 1, 3, 7 s later.
Clock::duration connect_time(const Report& report) {
  return kConnectTime + std::chrono::seconds(report.world_size / 1024);
}

Reached reach(const BrokerAddress& broker, Clock::duration each, Clock::time_point deadline) {
  Reached result;
  result.refused = true;
  for (const auto& host : broker.hosts) {
    int reason = 0;
    auto fd = connect_to(host, broker.port, std::min(deadline, Clock::now() + each), &reason);
    if (fd) {
      result.fd = *std::move(fd);
      return result;
    }
    result.refused = result.refused && reason == ECONNREFUSED;
    result.error = fd.error();
  }
  return result;
}

Report with_nonce(Report report) {
  // A nonce that could be foreseen would let an old answer of this same srun pass: no harm enough
  // to stop a step for.
  if (getrandom(report.nonce.data(), report.nonce.size(), 0) < 0)
    report.nonce.fill(0);
  return report;
}

Exchange failed(Reach reach, Error error) { return {reach, {}, std::move(error)}; }

} // namespace

Exchange exchange(const BrokerAddress& broker, const Report& report, std::chrono::seconds limit) {
  auto deadline = Clock::now() + std::min(limit, kExchangeTime);
  if (broker.port == 0 || broker.hosts.empty())
    return failed(Reach::kNotThere, {"srun offers no rendezvous", ""});
  auto sent = with_nonce(report);
  auto bytes = encode(sent, broker.token);
  if (!bytes)
    return failed(Reach::kFailed, {"the ranks of this node are too scattered to be told: " +
                                       sent.node_ranks.substr(0, 60) + "...",
                                   "use --distribution=cyclic or plane=TASKS_PER_NODE"});
  auto reached = reach(broker, connect_time(report), deadline);
  if (!reached.fd)
    return failed(reached.refused ? Reach::kNotThere : Reach::kUnreachable,
                  std::move(reached.error));
  std::string in;
  auto place = broker.hosts.front() + " port " + std::to_string(broker.port);
  if (!transmit(reached.fd, *bytes, deadline) || !receive(reached.fd, in, kAnswerSize, deadline) ||
      !answer_length(in) || !receive(reached.fd, in, *answer_length(in), deadline))
    return failed(Reach::kFailed,
                  {"srun at " + place + " does not answer",
                   "the plugins on the submitting host and on the nodes may differ in version"});
  auto answer = decode_answer(in, broker.token, sent.nonce);
  if (!answer)
    return failed(Reach::kFailed, {"what answers at " + place + " is not this step's srun",
                                   "another program may have taken the port"});
  return {Reach::kAnswered, *std::move(answer), {}};
}

void mention(const BrokerAddress& broker, const Report& report) {
  if (broker.port == 0)
    return;
  auto bytes = encode(with_nonce(report), broker.token);
  auto deadline = Clock::now() + kMentionTime;
  if (auto reached = reach(broker, kMentionTime, deadline); bytes && reached.fd)
    transmit(reached.fd, *bytes, deadline);
}

bool report_failure(const BrokerAddress& broker, Report report, const Error& failure) {
  report.failure = failure;
  report.want = Want::kNothing;
  return exchange(broker, report, kFailureTime).reach == Reach::kAnswered;
}

std::chrono::milliseconds longest_pause(const Report& report) {
  return 500ms + std::chrono::milliseconds(report.world_size / 8);
}

Exchange ask(const BrokerAddress& broker, const Report& report, std::chrono::seconds limit,
             const std::function<bool()>& found) {
  auto deadline = Clock::now() + limit;
  auto next_look = Clock::now() + kLookTime;
  bool was_there = false;
  int failures = 0;
  std::string missing;
  for (std::chrono::milliseconds pause = 2ms;; pause = std::min(pause * 2, longest_pause(report))) {
    auto result = exchange(broker, report, limit);
    Watchdog::still_alive();
    if (result.reach == Reach::kNotThere && was_there)
      return failed(Reach::kGone, {"srun ended while this task waited for the others", ""});
    was_there = was_there || result.reach == Reach::kAnswered;
    if (result.reach == Reach::kAnswered && result.answer.note != missing) {
      missing = result.answer.note; // somebody came
      deadline = Clock::now() + limit;
    }
    bool again = (result.reach == Reach::kAnswered && result.answer.status == Status::kPending) ||
                 (result.reach == Reach::kFailed && ++failures < kTries) ||
                 (result.reach == Reach::kUnreachable && was_there); // it is only busy
    if (!again || Clock::now() + pause > deadline)
      return result;
    if (found && result.reach == Reach::kAnswered && Clock::now() >= next_look) {
      if (found())
        return result;
      next_look = Clock::now() + kLookTime;
    }
    std::this_thread::sleep_for(pause);
  }
}

} // namespace dist_train
