// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/client.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include <poll.h>
#include <sys/socket.h>

#include "libstep/store/heartbeat.h"
#include "libstep/store/roster.h"
#include "libstep/store/threads.h"

namespace dist_train {
namespace {

// How much longer than asked a store may take: it may be busy with large values of others.
constexpr std::int64_t kPatienceMs = 60'000;
constexpr std::size_t kPiece = 1 << 20;
// Requests that no caller waits for carry this number; their answers are news like any other.
constexpr std::uint32_t kNobody = UINT32_MAX;

TimePoint deadline_of(std::int64_t wait_ms, std::int64_t more_ms = 0) {
  return Waiter::of(0, 0, wait_ms < 0 ? -1 : wait_ms + more_ms, Clock::now()).deadline;
}

// In short turns, to notice that the process stood still.
template <typename Condition>
bool wait_until(std::condition_variable& variable, std::unique_lock<std::mutex>& lock,
                TimePoint deadline, Condition condition) {
  for (;;) {
    const TimePoint due = std::min(deadline, Clock::now() + std::chrono::seconds(1));
    if (variable.wait_until(lock, due, condition))
      return true;
    if (deadline != TimePoint::max() && due >= (deadline += stood_still(due, Clock::now())))
      return false;
  }
}

const Error kNoSense{"a frame that makes no sense",
                     "see that all ranks run the same version of libstep"};

} // namespace

Client::Client(Socket stream, ClientOptions options)
    : stream_(std::move(stream)), options_(std::move(options)) {}

Result<std::unique_ptr<Client>> Client::start(Socket stream, ClientOptions options) {
  std::unique_ptr<Client> client(new Client(std::move(stream), std::move(options)));
  auto thread = start_quiet_thread("libstep-answers", [raw = client.get()] {
    try {
      raw->read_until_end();
    } catch (const std::bad_alloc&) {
      raw->end({STEP_ERR_MEMORY, {}, {"out of memory while an answer of the store came in"}});
    }
  });
  if (!thread)
    return thread.error();
  client->reader_ = *std::move(thread);
  return client;
}

Client::~Client() {
  (void)::shutdown(stream_.get(), SHUT_RDWR); // the reader sees the end
  if (reader_.joinable())
    reader_.join();
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

  std::unique_lock lock(mutex_);
  const bool done = wait_until(slot.wake, lock, deadline, [&] { return slot.reply.has_value(); });
  slots_.erase(id);
  if (done)
    return *std::move(slot.reply);
  return {STEP_ERR_TIMEOUT,
          {},
          {store_rank_text() + " did not answer: its store was silent for " +
               seconds_text(kPatienceMs) + " longer than the request may take",
           "see whether that process is stopped or its node is overloaded"}};
}

Result<void> Client::send_frame(const Request& request, std::uint32_t id, const std::string& body,
                                TimePoint deadline) {
  std::lock_guard lock(write_mutex_);
  auto sent = send_all(
      stream_, encode(Header{static_cast<std::uint32_t>(body.size()), id, kind_of(request)}),
      deadline);
  // In pieces, so that tick() sees that the store takes them.
  for (std::size_t at = 0; sent && at < body.size(); at += kPiece, ++sent_)
    sent = send_all(stream_, std::string_view(body).substr(at, kPiece), deadline);
  return sent;
}

// For the reader thread, which must not wait for a store that waits for it: false where the stream
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

void Client::read_until_end() {
  const auto interval = heartbeat_interval(options_.world);
  const std::uint32_t silence = silent_ticks(options_.silence_seconds, options_.world);
  TimePoint next_tick = Clock::now() + interval;
  std::string in;
  Result<void> read;
  for (;;) {
    pollfd entry{stream_.get(), POLLIN, 0};
    const int wait = milliseconds_until(next_tick);
    if (::poll(&entry, 1, reports_ ? std::min(wait, 10) : wait) > 0 && !(read = read_frames(in)))
      break;
    tell_passed();
    if (Clock::now() < next_tick)
      continue;
    next_tick = Clock::now() + interval;
    tell_signs();
    const bool sends = sent_seen_ != sent_.load();
    sent_seen_ = sent_.load();
    silent_ = sends ? 0 : silent_ + 1;
    if (silence != 0 && silent_ > silence) {
      read = Error{"nothing was heard of it for " +
                   seconds_text(std::int64_t{silence} * interval.count())};
      (void)::shutdown(stream_.get(), SHUT_RDWR); // for those who still write
      break;
    }
  }
  std::unique_lock lock(mutex_);
  if (ended_)
    return;
  Reply why;
  if (!read.error().hint.empty()) {
    why = {
        STEP_ERR_PROTOCOL,
        {},
        {"the store of " + store_rank_text() + " sent " + read.error().message, read.error().hint}};
  } else if (store_closed_) {
    why = {STEP_ERR_LOST,
           {},
           {store_rank_text() + " called step_close() and serves the store no more",
            "call step_barrier() before step_close() where ranks end at different times"}};
  } else {
    const Error error{store_rank_text() + " was lost: the connection to its store ended (" +
                          read.error().message + ")",
                      "look for the first error of that rank; the step cannot go on without it"};
    lost_.emplace_back(0, error);
    why = {STEP_ERR_LOST, {}, error};
  }
  lock.unlock();
  end(std::move(why));
}

Result<void> Client::read_frames(std::string& in) {
  constexpr std::size_t kRead = 256 << 10;
  const std::size_t have = in.size();
  in.resize(have + (have < kHeaderSize ? std::size_t{4096} : kRead));
  const ssize_t got = ::recv(stream_.get(), in.data() + have, in.size() - have, 0);
  const int error = errno;
  in.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0)
    return Error{"the other end closed the connection"};
  if (got < 0 && error != EAGAIN && error != EINTR)
    return Error{system_text("receive", error)};
  silent_ = 0;
  std::size_t done = 0;
  while (in.size() - done >= kHeaderSize) {
    const auto header = decode_header(std::string_view(in).substr(done, kHeaderSize));
    if (!header)
      return kNoSense;
    if (in.size() - done < kHeaderSize + header->length) {
      in.reserve(done + kHeaderSize + header->length);
      break;
    }
    if (auto taken = take_frame(*header, in.substr(done + kHeaderSize, header->length)); !taken)
      return taken;
    done += kHeaderSize + header->length;
  }
  in.erase(0, done);
  if (in.empty() && in.capacity() > kRead)
    in = {};
  return {};
}

Result<void> Client::take_frame(const Header& header, std::string body) {
  std::lock_guard lock(mutex_);
  if (header.id == 0)
    return take_news(static_cast<News>(header.kind), body) ? Result<void>() : kNoSense;
  if (header.kind > STEP_ERR_INTERNAL)
    return kNoSense;
  if (header.id == kNobody) { // of a sign of life
    if (const auto number = decode_number(body))
      store_iteration_ = static_cast<std::int64_t>(*number);
    return {};
  }
  const auto found = slots_.find(header.id);
  if (found == slots_.end())
    return {}; // the caller has given up meanwhile
  Reply reply;
  reply.code = static_cast<step_err_t>(header.kind);
  if (reply.code == STEP_OK || reply.code == STEP_ERR_TOO_SMALL)
    reply.body = std::move(body);
  else
    reply.error = parse_failure(body);
  found->second->reply = std::move(reply);
  found->second->wake.notify_one();
  return {};
}

bool Client::take_news(News news, std::string_view body) {
  const auto number = decode_number(body.substr(0, 8));
  switch (news) {
  case News::kClosing:
    store_closed_ = true;
    return true;
  case News::kLost: {
    if (!number || *number > UINT32_MAX)
      return false;
    lost_.emplace_back(static_cast<std::uint32_t>(*number), parse_failure(body.substr(8)));
    // Taken for lost by the others, this rank is out of the step, whatever its own state.
    if (*number == options_.rank && !ended_) {
      ended_ = {STEP_ERR_LOST, {}, lost_.back().second};
      for (auto& [id, slot] : slots_) {
        slot->reply = ended_;
        slot->wake.notify_one();
      }
    }
    news_.notify_all();
    return true;
  }
  case News::kStopAsked:
    if (!stop_asked_) {
      stop_reason_ = body;
      stop_asked_ = owes_report_ = true;
    }
    return true;
  case News::kStopAt:
    if (!number)
      return false;
    if (!stop_asked_)
      stop_reason_ = body.substr(8);
    stop_asked_ = true;
    stop_at_ = static_cast<std::int64_t>(*number);
    news_.notify_all();
    return true;
  }
  return false;
}

// The report that a stop waits for; until the stream has room for it, again and again.
void Client::tell_passed() {
  StopReport report;
  {
    std::lock_guard lock(mutex_);
    reports_ = reports_ || std::exchange(owes_report_, false);
    report.passed = passed_; // fixed since the stop was asked for
  }
  if (reports_)
    reports_ = !send_small(report, kNobody);
}

void Client::tell_signs() {
  Progress progress;
  std::optional<std::string> reason;
  {
    std::lock_guard lock(mutex_);
    progress.iteration = iteration_;
    if (poll_ && !stop_asked_)
      reason = poll_();
  }
  (void)send_small(progress, kNobody);
  if (reason)
    (void)send_small(StopRequest{*std::move(reason)}, kNobody);
}

void Client::end(Reply why) {
  std::lock_guard lock(mutex_);
  for (auto& [id, slot] : slots_) {
    if (!slot->reply)
      slot->reply = why;
    slot->wake.notify_one();
  }
  ended_ = std::move(why);
  news_.notify_all();
}

} // namespace dist_train
