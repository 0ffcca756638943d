// SPDX-License-Identifier: BSD-3-Clause
// What comes from the store, and what a client says of its own accord.
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

#include "libstep/store/client.h"
#include "libstep/store/heartbeat.h"
#include "libstep/store/roster.h"

namespace dist_train {
namespace {

const Error kNoSense{"a frame that makes no sense",
                     "see that all ranks run the same version of libstep"};

} // namespace

void Client::read_unless_read() {
  {
    const std::lock_guard lock(mutex_);
    if (reading_)
      return;
    reading_ = true;
  }
  read();
  const std::lock_guard lock(mutex_);
  reading_ = false;
}

void Client::read() {
  or_end([this] {
    if (auto read = read_frames(); !read)
      end_of_stream(read.error());
    tell_passed();
  });
}

void Client::tick() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_)
      return;
  }
  const std::uint32_t limit = silent_ticks(options_.silence_seconds, options_.world);
  tell_signs();
  const std::uint64_t sent = sent_.load();
  if (sent != std::exchange(sent_seen_, sent))
    silent_ = 0;
  else if (++silent_ > limit && limit != 0) {
    const auto interval = heartbeat_interval(options_.world);
    end_of_stream(Error{"nothing was heard of it for " +
                        seconds_text(std::int64_t{limit} * interval.count())});
    (void)::shutdown(stream_.get(), SHUT_RDWR); // for those who still write
  }
}

void Client::end_of_stream(const Error& error) {
  reader_->let_go(*this);
  std::unique_lock lock(mutex_);
  if (ended_) // the store has told this rank that it is lost
    return;
  Reply why;
  if (!error.hint.empty()) {
    why = {STEP_ERR_PROTOCOL,
           {},
           {"the store of " + store_rank_text() + " sent " + error.message, error.hint}};
  } else if (store_closed_) {
    why = {STEP_ERR_LOST,
           {},
           {store_rank_text() + " called step_close() and serves the store no more",
            "call step_barrier() before step_close() where ranks end at different times"}};
  } else {
    const Error lost{store_rank_text() + " was lost: the connection to its store ended (" +
                         error.message + ")",
                     "look for the first error of that rank; the step cannot go on without it"};
    lost_.emplace_back(0, lost);
    why = {STEP_ERR_LOST, {}, lost};
  }
  lock.unlock();
  end(std::move(why));
}

Result<void> Client::read_frames() {
  // Most frames are small and come whole; what has come of another is kept in in_.
  constexpr std::size_t kMore = 256 << 10;
  std::array<char, 4096> block;
  const std::size_t have = in_.size();
  in_.resize(have == 0 ? 0 : have + kMore);
  const ssize_t got = have == 0 ? ::recv(stream_.get(), block.data(), block.size(), 0)
                                : ::recv(stream_.get(), in_.data() + have, kMore, 0);
  const int error = errno;
  const auto came = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  in_.resize(have == 0 ? 0 : have + came);
  if (got == 0)
    return Error{"the other end closed the connection"};
  if (got < 0 && error != EAGAIN && error != EINTR)
    return Error{system_text("receive", error)};
  silent_ = 0;
  std::string_view bytes = have == 0 ? std::string_view(block.data(), came) : in_;
  std::size_t wanted = 0;
  while (wanted == 0 && bytes.size() >= kHeaderSize) {
    const auto header = decode_header(bytes.substr(0, kHeaderSize));
    if (!header)
      return kNoSense;
    const std::size_t size = kHeaderSize + header->length;
    if (bytes.size() < size) {
      wanted = size;
    } else {
      const auto body = bytes.substr(kHeaderSize, header->length);
      if (auto taken = take_frame(*header, std::string(body)); !taken)
        return taken;
      bytes.remove_prefix(size);
    }
  }
  if (bytes.empty())
    std::string().swap(in_); // frees it
  else if (have == 0)
    in_ = bytes;
  else
    in_.erase(0, in_.size() - bytes.size());
  in_.reserve(wanted == 0 ? 0 : wanted + kMore);
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
    const std::lock_guard lock(mutex_);
    if (!std::exchange(owes_report_, false) || ended_)
      return;
    report.passed = passed_; // fixed since the stop was asked for
  }
  if (send_small(report, kNobody))
    return;
  const std::lock_guard lock(mutex_);
  owes_report_ = true;
  reader_->try_again_soon();
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
  reader_->let_go(*this);
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
