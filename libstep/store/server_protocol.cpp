// SPDX-License-Identifier: BSD-3-Clause
// The server's side of the protocol: who may come in, and what each request does.
#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include <sys/socket.h>

#include "libstep/store/server_loop.h"
#include "libstep/store/threads.h"

namespace dist_train {

std::string frame_of(News news, const std::string& body) {
  return encode(
             Header{static_cast<std::uint32_t>(body.size()), 0, static_cast<std::uint8_t>(news)}) +
         body;
}

std::optional<std::size_t> Server::Loop::consume(Connection& connection, std::string_view bytes,
                                                 TimePoint now) {
  const std::size_t all = bytes.size();
  const auto take = [&](std::size_t count) {
    const auto taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  if (connection.handshake && !connection.closing && bytes.size() >= kOpeningSize) {
    const auto version = decode_opening(bytes.substr(0, kOpeningSize));
    if (!version)
      return std::nullopt;
    if (*version != kProtocolVersion) {
      refuse(connection, {kProtocolVersion, Verdict::kWrongVersion, 0, {}});
      return all;
    }
    if (bytes.size() >= kHelloSize && !take_hello(connection, take(kHelloSize)))
      return std::nullopt;
  }
  while (!connection.handshake && !connection.closing && bytes.size() >= kHeaderSize) {
    const auto header = decode_header(bytes.substr(0, kHeaderSize));
    if (!header)
      return std::nullopt;
    if (bytes.size() < kHeaderSize + header->length)
      break;
    take(kHeaderSize);
    auto request = decode_request(header->kind, take(header->length));
    if (!request)
      return std::nullopt;
    execute(connection, header->id, *request, now);
  }
  return all - bytes.size();
}

void Server::Loop::refuse(Connection& connection, Welcome welcome) {
  welcome.proof.resize(kProofSize, '\0');
  queue(connection, encode(welcome));
  connection.closing = true;
}

// False: the rank that sent it has hung up meanwhile, and tries again or is no more.
bool Server::Loop::take_hello(Connection& connection, std::string_view bytes) {
  char ignored = 0;
  if (::recv(connection.fd.get(), &ignored, 1, MSG_PEEK) == 0)
    return false;
  const auto hello = decode_hello(bytes);
  Welcome welcome;
  if (!hello || !proves(hello->proof, prove(options_.token, *hello))) {
    welcome.verdict = Verdict::kWrongToken;
    refuse(connection, std::move(welcome));
    return true;
  }
  welcome.verdict = judge(*hello);
  welcome.program_port = options_.program_port;
  welcome.proof = as_text(prove(options_.token, *hello, welcome));
  if (welcome.verdict != Verdict::kWelcome) {
    refuse(connection, std::move(welcome));
    return true;
  }
  queue(connection, encode(welcome));
  admit(connection, hello->rank);
  return true;
}

Verdict Server::Loop::judge(const Hello& hello) const {
  if (hello.generation != options_.generation)
    return Verdict::kWrongGeneration;
  if (hello.world != roster_.world() || hello.rank >= roster_.world())
    return Verdict::kWrongWorld;
  if (roster_.of(hello.rank) != Presence::kAbsent)
    return Verdict::kRankTaken;
  return Verdict::kWelcome;
}

void Server::Loop::admit(Connection& connection, std::uint32_t rank) {
  connection.rank = rank;
  strangers_.erase(connection.handshake->place);
  connection.handshake.reset();
  by_rank_[connection.rank] = connection.fd.get();
  roster_.mark(connection.rank, Presence::kHere);
  if (!lost_news_.empty())
    queue(connection, frame_of(News::kLost, lost_news_));
  stop_.roster_changed();
  if (const auto at = stop_.decided())
    queue(connection,
          frame_of(News::kStopAt, encode_number(static_cast<std::uint64_t>(*at)) + stop_.reason()));
  else if (stop_.asked())
    queue(connection, frame_of(News::kStopAsked, stop_.reason()));
}

void Server::Loop::execute(Connection& connection, std::uint32_t id, Request& request,
                           TimePoint now) {
  const std::uint32_t rank = connection.rank;
  const auto run = [&](auto& record) {
    using Record = std::remove_reference_t<decltype(record)>;
    if constexpr (std::is_same_v<Record, Introduce>) {
      if (record.node.size() <= kMaxNodeName && options_.nodes[rank].empty())
        roster_.name(rank, std::move(record.node));
      answers_.push_back(answer({rank, id, 0, {}}));
    } else if constexpr (std::is_same_v<Record, Goodbye>) {
      gone(rank, Presence::kLeft, "");
      answers_.push_back(answer({rank, id, 0, {}}));
    } else if constexpr (std::is_same_v<Record, Progress>) {
      roster_.at(rank, record.iteration);
      if (record.iteration != kNoIteration && options_.stop_seconds >= 0)
        begin_look_at_clock();
      answers_.push_back(answer({rank, id, 0, {}},
                                encode_number(static_cast<std::uint64_t>(roster_.iteration(0)))));
    } else if constexpr (std::is_same_v<Record, StopRequest>) {
      want_stop(std::move(record.reason));
      answers_.push_back(
          answer({rank, id, 0, {}})); // behind the news, which the rank knows by then
    } else if constexpr (std::is_same_v<Record, StopReport>) {
      stop_.report(rank, record.passed);
    } else if constexpr (std::is_same_v<Record, TimeLeft>) {
      want_time_.push_back({rank, id, 0, {}});
      begin_look_at_clock();
      end_look_at_clock(now);
    } else if constexpr (std::is_same_v<Record, Collective>) {
      collectives_.handle(rank, id, std::move(record), now, answers_);
    } else if constexpr (std::is_same_v<Record, GetKey> || std::is_same_v<Record, WaitKeys>) {
      keys_.handle(rank, id, std::move(record), now, answers_);
    } else {
      keys_.handle(rank, id, std::move(record), answers_);
    }
  };
  std::visit(run, request);
}

std::string Server::Loop::gone(std::uint32_t rank, Presence presence, const std::string& why) {
  roster_.mark(rank, presence);
  stop_.roster_changed();
  keys_.forget(rank);
  std::erase_if(want_time_, [&](const Waiter& waiter) { return waiter.rank == rank; });
  const std::string who = roster_.describe({rank});
  if (presence == Presence::kLeft) {
    collectives_.rank_gone(rank,
                           {who + " called step_close() and will not come",
                            "every rank must call the same collectives before step_close()"},
                           answers_);
    return {};
  }
  const Error error{who + " was lost: " + why,
                    "look for the first error of that rank; the step cannot go on without it"};
  collectives_.rank_gone(rank, error, answers_);
  keys_.fail_waiters(error, answers_);
  std::string news = encode_number(rank) + error.message + "\n" + error.hint;
  // Waiting for losses ends with the first, and when a node dies they come in hundreds.
  if (lost_news_.empty()) {
    lost_news_ = news;
    tell_all(News::kLost, news);
  }
  return news;
}

void Server::Loop::want_stop(std::string reason) {
  reason.resize(std::min(reason.size(), kMaxReason));
  if (stop_.begin(std::move(reason)))
    tell_all(News::kStopAsked, stop_.reason());
}

void Server::Loop::agree_on_stop() {
  if (const auto at = stop_.take_decision())
    tell_all(News::kStopAt, encode_number(static_cast<std::uint64_t>(*at)) + stop_.reason());
}

void Server::Loop::begin_look_at_clock() {
  if (job_end_ || clock_.joinable())
    return;
  if (!options_.time_left) {
    job_end_ = TimePoint::max();
    return;
  }
  auto thread = start_quiet_thread("libstep-clock", [this] {
    clock_answer_ = options_.time_left(clock_unwanted_.get_token());
    wake();
  });
  if (thread)
    clock_ = *std::move(thread);
  else
    job_end_ = TimePoint::max(); // as where no limit is known
}

void Server::Loop::end_look_at_clock(TimePoint now) {
  using std::chrono::milliseconds;
  if (const std::int64_t left = clock_answer_; !job_end_ && left >= 0) {
    job_end_ = TimePoint::max();
    constexpr std::int64_t kLongest = std::int64_t{100} * 365 * 24 * 3600 * 1000;
    if (left < kLongest) {
      job_end_ = now + milliseconds(left);
      const auto before = static_cast<double>(left) / 10;
      const double lead = options_.stop_seconds == 0 ? std::min(kStopSeconds * 1000, before)
                                                     : options_.stop_seconds * 1000;
      if (lead >= 0)
        stop_before_end_ =
            *job_end_ - milliseconds(static_cast<std::int64_t>(std::min(lead, 1e12)));
    }
  }
  if (!job_end_)
    return;
  const std::int64_t left = *job_end_ == TimePoint::max()
                                ? kNoTimeLimit
                                : std::chrono::duration_cast<milliseconds>(*job_end_ - now).count();
  for (const Waiter& waiter : std::exchange(want_time_, {}))
    answers_.push_back(answer(waiter, encode_number(static_cast<std::uint64_t>(left))));
}

void Server::Loop::tell_all(News news, const std::string& body) {
  const auto shared = std::make_shared<const std::string>(body);
  for (std::uint32_t rank = 0; rank < roster_.world(); ++rank)
    if (by_rank_[rank] >= 0)
      answers_.push_back({rank, 0, static_cast<std::uint8_t>(news), shared});
}

} // namespace dist_train
