// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/client.h"

#include <new>

#include <sys/socket.h>

#include "libstep/store/roster.h"
#include "libstep/store/threads.h"

namespace dist_train {
namespace {

// How much longer than asked a store may take: it may be busy with large values of others.
constexpr std::int64_t kPatienceMs = 60'000;

TimePoint deadline_of(std::int64_t wait_ms, std::int64_t more_ms = 0) {
  return Waiter::of(0, 0, wait_ms < 0 ? -1 : wait_ms + more_ms, Clock::now()).deadline;
}

template <typename Condition>
bool wait_until(std::condition_variable& variable, std::unique_lock<std::mutex>& lock,
                TimePoint deadline, Condition condition) {
  if (deadline != TimePoint::max())
    return variable.wait_until(lock, deadline, condition);
  variable.wait(lock, condition);
  return true;
}

} // namespace

Client::Client(Socket stream, std::string store_rank_text)
    : stream_(std::move(stream)), store_rank_text_(std::move(store_rank_text)) {}

Result<std::unique_ptr<Client>> Client::start(Socket stream, std::string store_rank_text) {
  std::unique_ptr<Client> client(new Client(std::move(stream), std::move(store_rank_text)));
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

Reply Client::call(const Request& request, std::int64_t wait_ms) {
  std::string frame = encode_body(request);
  if (frame.size() > kMaxBody)
    return {STEP_ERR_ARGUMENT,
            {},
            {"the request has " + std::to_string(frame.size()) + " bytes, more than " +
                 std::to_string(kMaxBody),
             "split it into several"}};
  const TimePoint deadline = deadline_of(wait_ms, kPatienceMs);
  Slot slot;
  std::uint32_t id = 0;
  {
    std::lock_guard lock(mutex_);
    if (ended_)
      return *ended_;
    do
      ++last_id_;
    while (last_id_ == 0 || slots_.contains(last_id_));
    id = last_id_;
    slots_.emplace(id, &slot);
  }
  Result<void> sent;
  {
    std::lock_guard lock(write_mutex_);
    sent = send_all(stream_,
                    encode(Header{static_cast<std::uint32_t>(frame.size()), id, kind_of(request)}),
                    deadline);
    if (sent)
      sent = send_all(stream_, frame, deadline);
  }
  if (!sent) // half a frame may be out: the stream is of no more use, and the reader will say why
    (void)::shutdown(stream_.get(), SHUT_RDWR);

  std::unique_lock lock(mutex_);
  const bool done = wait_until(slot.wake, lock, deadline, [&] { return slot.reply.has_value(); });
  slots_.erase(id);
  if (done)
    return *std::move(slot.reply);
  return {STEP_ERR_TIMEOUT,
          {},
          {store_rank_text_ + " did not answer: its store was silent for " +
               seconds_text(kPatienceMs) + " longer than the request may take",
           "see whether that process is stopped or its node is overloaded"}};
}

Reply Client::wait_lost(std::uint32_t& rank, std::int64_t wait_ms) {
  std::unique_lock lock(mutex_);
  const bool happened = wait_until(news_, lock, deadline_of(wait_ms), [&] {
    return !lost_.empty() || watch_closed_ || ended_.has_value();
  });
  if (!lost_.empty()) {
    rank = lost_.front().first;
    return {STEP_OK, {}, lost_.front().second};
  }
  if (!happened)
    return {STEP_ERR_TIMEOUT, {}, {"no rank was lost within " + seconds_text(wait_ms)}};
  if (watch_closed_)
    return {STEP_ERR_NOT_FOUND, {}, {"the watch for lost ranks was closed"}};
  if (store_closed_)
    return {STEP_ERR_NOT_FOUND,
            {},
            {store_rank_text_ + " called step_close(): nobody watches for lost ranks any more"}};
  return *ended_;
}

void Client::close_watch() {
  std::lock_guard lock(mutex_);
  watch_closed_ = true;
  news_.notify_all();
}

void Client::read_until_end() {
  std::string why;
  for (;;) {
    auto bytes = receive_exactly(stream_, kHeaderSize, TimePoint::max());
    if (!bytes) {
      why = bytes.error().message;
      break;
    }
    const auto header = decode_header(*bytes);
    auto body = header ? receive_exactly(stream_, header->length, TimePoint::max())
                       : Result<std::string>(std::string());
    if (!body) {
      why = body.error().message;
      break;
    }
    if (!header || !take_frame(*header, *std::move(body)))
      return end({STEP_ERR_PROTOCOL,
                  {},
                  {"the store of " + store_rank_text_ + " sent a frame that makes no sense",
                   "see that all ranks run the same version of libstep"}});
  }
  const bool in_order = [&] {
    std::lock_guard lock(mutex_);
    return store_closed_;
  }();
  if (in_order)
    return end({STEP_ERR_LOST,
                {},
                {store_rank_text_ + " called step_close() and serves the store no more",
                 "call step_barrier() before step_close() where ranks end at different times"}});
  const Error error{store_rank_text_ + " was lost: the connection to its store ended (" + why + ")",
                    "look for the first error of that rank; the step cannot go on without it"};
  {
    std::lock_guard lock(mutex_);
    lost_.emplace_back(0, error);
  }
  end({STEP_ERR_LOST, {}, error});
}

bool Client::take_frame(const Header& header, std::string body) {
  std::lock_guard lock(mutex_);
  if (header.id == 0 && header.kind == static_cast<std::uint8_t>(News::kClosing)) {
    store_closed_ = true;
    return true;
  }
  if (header.id == 0) {
    const auto rank = decode_number(std::string_view(body).substr(0, 8));
    if (header.kind != static_cast<std::uint8_t>(News::kLost) || !rank || *rank > UINT32_MAX)
      return false;
    lost_.emplace_back(static_cast<std::uint32_t>(*rank),
                       parse_failure(std::string_view(body).substr(8)));
    news_.notify_all();
    return true;
  }
  if (header.kind > STEP_ERR_INTERNAL)
    return false;
  const auto found = slots_.find(header.id);
  if (found == slots_.end())
    return true; // the caller has given up meanwhile
  Reply reply;
  reply.code = static_cast<step_err_t>(header.kind);
  if (reply.code == STEP_OK || reply.code == STEP_ERR_TOO_SMALL)
    reply.body = std::move(body);
  else
    reply.error = parse_failure(body);
  found->second->reply = std::move(reply);
  found->second->wake.notify_one();
  return true;
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
