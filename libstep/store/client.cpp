// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/client.h"

#include <algorithm>

#include <poll.h>
#include <sys/socket.h>

#include "libstep/store/heartbeat.h"
#include "libstep/store/roster.h"

namespace dist_train {
namespace {

// How much longer than asked a store may take: it may be busy with large values of others.
constexpr std::int64_t kPatienceMs = 60'000;
constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kSmall = 4096; // goes out with its header

TimePoint deadline_of(std::int64_t wait_ms, std::int64_t more_ms = 0) {
  return Waiter::of(0, 0, wait_ms < 0 ? -1 : wait_ms + more_ms, Clock::now()).deadline;
}

// Waits are made of short turns, to notice that the process stood still.
TimePoint turn_until(TimePoint deadline) {
  return std::min(deadline, Clock::now() + std::chrono::seconds(1));
}

// After a turn in vain: whether the deadline, moved by the time the process stood still, is there.
bool passed(TimePoint& deadline, TimePoint turn) {
  return deadline != TimePoint::max() && turn >= (deadline += stood_still(turn, Clock::now()));
}

template <typename Condition>
bool wait_until(std::condition_variable& variable, std::unique_lock<std::mutex>& lock,
                TimePoint deadline, Condition condition) {
  for (;;) {
    const TimePoint turn = turn_until(deadline);
    if (variable.wait_until(lock, turn, condition))
      return true;
    if (passed(deadline, turn))
      return false;
  }
}

} // namespace

Client::Client(Socket stream, ClientOptions options, std::shared_ptr<Reader> reader)
    : stream_(std::move(stream)), options_(std::move(options)), reader_(std::move(reader)) {}

Result<std::unique_ptr<Client>> Client::start(Socket stream, ClientOptions options,
                                              std::shared_ptr<Reader> reader) {
  if (!reader) {
    auto own = Reader::start(options.world);
    if (!own)
      return own.error();
    reader = *std::move(own);
  }
  std::unique_ptr<Client> client(
      new Client(std::move(stream), std::move(options), std::move(reader)));
  if (auto added = client->reader_->add(*client); !added)
    return added.error();
  return client;
}

Client::~Client() {
  (void)::shutdown(stream_.get(), SHUT_RDWR);
  reader_->remove(*this);
}

std::string Client::store_rank_text() const {
  std::string text = options_.store_node;
  if (!text.empty())
    text += ", local 0";
  if (const auto last = iteration_text(store_iteration_); !last.empty())
    text += (text.empty() ? "" : ", ") + last;
  return text.empty() ? "rank 0" : "rank 0 (" + text + ")";
}

Reply Client::call(const Request& request, std::int64_t wait_ms) {
  const std::string body = encode_body(request);
  if (body.size() > kMaxBody)
    return {STEP_ERR_ARGUMENT,
            {},
            {"the request has " + std::to_string(body.size()) + " bytes, more than " +
                 std::to_string(kMaxBody),
             "split it into several"}};
  // Who lets rank 0 be silent (it is in a debugger) waits for its answers, too.
  const TimePoint deadline = deadline_of(options_.silence_seconds < 0 ? -1 : wait_ms, kPatienceMs);
  Slot slot;
  std::uint32_t id = 0;
  {
    std::lock_guard lock(mutex_);
    if (ended_)
      return *ended_;
    do
      ++last_id_;
    while (last_id_ == 0 || last_id_ == kNobody || slots_.contains(last_id_));
    id = last_id_;
    slots_.emplace(id, &slot);
  }
  if (!send_frame(request, id, body, deadline))
    // Half a frame may be out: the stream is of no more use, and the reader will say why.
    (void)::shutdown(stream_.get(), SHUT_RDWR);

  const bool done = await(slot, deadline);
  const std::lock_guard lock(mutex_);
  slots_.erase(id);
  if (done)
    return *std::move(slot.reply);
  return {STEP_ERR_TIMEOUT,
          {},
          {store_rank_text() + " did not answer: its store was silent for " +
               seconds_text(kPatienceMs) + " longer than the request may take",
           "see whether that process is stopped or its node is overloaded"}};
}

bool Client::await(Slot& slot, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  if (reading_)
    return wait_until(slot.wake, lock, deadline, [&] { return slot.reply.has_value(); });
  reading_ = true;
  reader_->watch(*this, false);
  bool in_time = true;
  while (!slot.reply && in_time) {
    lock.unlock();
    const TimePoint turn = turn_until(deadline);
    pollfd entry{stream_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, milliseconds_until(turn));
    if (ready > 0)
      read();
    else if (ready == 0)
      in_time = !passed(deadline, turn);
    lock.lock();
  }
  reading_ = false;
  reader_->watch(*this, true);
  return slot.reply.has_value();
}

Result<void> Client::send_frame(const Request& request, std::uint32_t id, const std::string& body,
                                TimePoint deadline) {
  std::string first = encode(Header{static_cast<std::uint32_t>(body.size()), id, kind_of(request)});
  std::size_t at = std::min(body.size(), kSmall);
  first.append(body, 0, at);
  const std::lock_guard lock(write_mutex_);
  auto sent = send_all(stream_, first, deadline);
  // In pieces, so that tick() sees that the store takes them.
  for (; sent && at < body.size(); at += kPiece, ++sent_)
    sent = send_all(stream_, std::string_view(body).substr(at, kPiece), deadline);
  return sent;
}

// For whoever reads, who must not wait for a store that waits for it: false where the stream
// is full or in use.
bool Client::send_small(const Request& request, std::uint32_t id) {
  const std::unique_lock lock(write_mutex_, std::try_to_lock);
  if (!lock)
    return false;
  const std::string body = encode_body(request);
  const std::string frame =
      encode(Header{static_cast<std::uint32_t>(body.size()), id, kind_of(request)}) + body;
  const ssize_t sent = ::send(stream_.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  if (sent < 0)
    return false;
  // Half of so small a frame is next to impossible, and no reason to wait long.
  if (!send_all(stream_, std::string_view(frame).substr(static_cast<std::size_t>(sent)),
                Clock::now() + std::chrono::seconds(5)))
    (void)::shutdown(stream_.get(), SHUT_RDWR);
  return true;
}

Reply Client::wait_lost(std::uint32_t& rank, std::int64_t wait_ms) {
  std::unique_lock lock(mutex_);
  const bool happened = wait_until(news_, lock, deadline_of(wait_ms), [&] {
    return !lost_.empty() || watch_closed_ || ended_.has_value();
  });
  if (!lost_.empty()) {
    rank = lost_.front().first;
    Error first = lost_.front().second;
    // The store's own end explains more than the rank that happened to go before it.
    if (lost_.size() > 1 && rank != 0 && lost_.back().first == 0)
      first.message += "; then " + lost_.back().second.message;
    return {STEP_OK, {}, std::move(first)};
  }
  if (!happened)
    return {STEP_ERR_TIMEOUT, {}, {"no rank was lost within " + seconds_text(wait_ms)}};
  if (watch_closed_)
    return {STEP_ERR_NOT_FOUND, {}, {"the watch for lost ranks was closed"}};
  if (store_closed_)
    return {STEP_ERR_NOT_FOUND,
            {},
            {store_rank_text() + " called step_close(): nobody watches for lost ranks any more"}};
  return *ended_;
}

void Client::close_watch() {
  std::lock_guard lock(mutex_);
  watch_closed_ = true;
  news_.notify_all();
}

void Client::poll_stops(std::function<std::optional<std::string>()> poll) {
  std::lock_guard lock(mutex_);
  poll_ = std::move(poll);
}

Reply Client::should_stop(std::int64_t iteration, bool& stop) {
  std::unique_lock lock(mutex_);
  if (iteration_ == kNoIteration) { // the first: what a rank is told on joining must be here
    lock.unlock();
    (void)call(Progress{iteration}); // fails only where the connection has ended
    lock.lock();
  }
  if (poll_ && !stop_asked_)
    if (auto reason = poll_()) {
      lock.unlock();
      (void)call(StopRequest{*std::move(reason)}); // fails only where the wait below fails, too
      lock.lock();
    }
  iteration_ = std::max(iteration_, iteration);
  if (stop_asked_ && iteration > passed_)
    news_.wait(lock, [&] { return stop_at_.has_value() || ended_.has_value(); });
  if (ended_ && !stop_at_)
    return *ended_;
  stop = stop_at_ && iteration >= *stop_at_;
  if (!stop_asked_)
    passed_ = std::max(passed_, iteration);
  return {};
}

const char* Client::stop_reason() {
  std::lock_guard lock(mutex_);
  return stop_asked_ ? stop_reason_.c_str() : "";
}

} // namespace dist_train
