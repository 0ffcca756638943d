// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/server_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libstep/store/heartbeat.h"

namespace dist_train {
namespace {

constexpr auto kHandshake = std::chrono::seconds(10);
constexpr std::size_t kStrangers = 64; // beyond one a rank
constexpr std::size_t kReadPiece = 64 << 10;
constexpr std::size_t kGreetingMax = 256;
constexpr std::size_t kQueueMax = 256u << 20; // a rank that reads no answers is not read either

} // namespace

Server::Loop::Loop(ServerOptions options)
    : options_(std::move(options)), roster_(options_.nodes), by_rank_(options_.nodes.size(), -1),
      block_(kReadPiece, '\0'), next_tick_(Clock::now()) {}

Server::Loop::~Loop() {
  clock_unwanted_.request_stop();
  if (clock_.joinable())
    clock_.join();
}

Result<void> Server::Loop::prepare(Socket own_end) {
  epoll_ = Socket(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_)
    return Error{system_text("epoll or eventfd", errno)};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    return Error{system_text("epoll_ctl", errno)};
  if (options_.listener) {
    if (::fcntl(options_.listener.get(), F_SETFL, O_NONBLOCK) != 0)
      return Error{system_text("fcntl", errno)};
    tune_stream(options_.listener); // what it accepts is tuned alike
    resume_accepting();
  }
  Connection own;
  by_rank_[0] = own_end.get();
  roster_.mark(0, Presence::kHere);
  own.fd = std::move(own_end);
  return add(std::move(own));
}

void Server::Loop::ask_to_stop(double linger_seconds) {
  linger_.store(linger_seconds);
  wake();
}

void Server::Loop::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Server::Loop::run() {
  try {
    serve();
  } catch (const std::exception&) {
    // Out of memory outside any one connection. Every rank sees its connection end and says so.
  }
  connections_.clear();
  options_.listener.reset();
}

void Server::Loop::serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const TimePoint due = next_deadline();
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(),
                                   milliseconds_until(due + still_));
    still_ += stood_still(due + still_, Clock::now());
    const TimePoint now = Clock::now() - still_;
    // Where many streams are ready, the listener's turn comes late. Those who knock must not wait
    // for it: once the kernel's queue of them is full, the rest try again after seconds.
    if (count == static_cast<int>(events.size()) && options_.listener &&
        resume_at_ == TimePoint::max())
      accept_all(now);
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if (event.data.fd == wake_.get()) {
        std::uint64_t ignored = 0;
        (void)!::read(wake_.get(), &ignored, sizeof ignored);
      } else if (options_.listener && event.data.fd == options_.listener.get()) {
        accept_all(now);
      } else if (const auto found = connections_.find(event.data.fd); found != connections_.end()) {
        if (!advance(found->second, now))
          ended_.push_back(event.data.fd);
      }
    }
    if (now >= resume_at_)
      resume_accepting();
    shed_strangers(now);
    keys_.expire(now, answers_);
    collectives_.expire(now, answers_);
    tick(now);
    settle();
    if (finished(now))
      return;
  }
}

bool Server::Loop::advance(Connection& connection, TimePoint now) {
  try {
    if (!connection.out.empty()) {
      if (!write(connection))
        return false;
      watch(connection);
    }
    return read(connection, now);
  } catch (const std::bad_alloc&) {
    return false; // too large for this machine: the rank that sent it goes, the others stay
  }
}

// There always is one: the next tick.
TimePoint Server::Loop::next_deadline() const {
  TimePoint next = std::min(keys_.next_deadline(), collectives_.next_deadline());
  next = std::min({next, stop_at_, resume_at_, next_tick_, stop_before_end_});
  if (!strangers_.empty())
    next = std::min(next, connections_.at(strangers_.front()).handshake->deadline);
  return next;
}

bool Server::Loop::finished(TimePoint now) {
  const double linger = linger_.load();
  if (linger < 0)
    return false;
  if (stop_at_ == TimePoint::max())
    stop_at_ = now + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(linger, 1e6)));
  const bool all_left =
      std::none_of(by_rank_.begin() + 1, by_rank_.end(), [](int fd) { return fd >= 0; }) &&
      roster_.all(Presence::kAbsent).empty();
  if (!all_left && now < stop_at_)
    return false;
  tell_all(News::kClosing, {});
  settle();
  return true;
}

void Server::Loop::pause_accepting(TimePoint until) {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, options_.listener.get(), nullptr);
  resume_at_ = until;
}

void Server::Loop::resume_accepting() {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = options_.listener.get();
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, options_.listener.get(), &event);
  resume_at_ = TimePoint::max();
}

void Server::Loop::accept_all(TimePoint now) {
  // All who knock, for the kernel's queue of them is short, and then what they say, which mostly
  // has come with them. Not without bound: a flood of strangers must not keep the ranks waiting,
  // nor push out those of this round.
  std::vector<int> fresh;
  const std::size_t most = std::min<std::size_t>(1024, roster_.world() + kStrangers);
  for (std::size_t tries = 0; tries < most; ++tries) {
    Socket fd(::accept4(options_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EAGAIN)
        break;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (strangers_.empty()) {
          pause_accepting(now + std::chrono::milliseconds(100));
          break;
        }
        drop(strangers_.front());
      }
      continue; // a peer that left again before it was accepted
    }
    const int number = fd.get();
    Connection connection;
    connection.fd = std::move(fd);
    connection.handshake = std::make_unique<Handshake>();
    connection.handshake->deadline = now + kHandshake;
    connection.handshake->place = strangers_.insert(strangers_.end(), number);
    if (!add(std::move(connection))) {
      strangers_.pop_back();
      continue;
    }
    fresh.push_back(number);
    if (strangers_.size() > roster_.world() + kStrangers)
      drop(strangers_.front()); // a rank that meets this fate tries again
  }
  for (const int number : fresh)
    if (const auto found = connections_.find(number); found != connections_.end())
      if (!advance(found->second, now))
        ended_.push_back(number);
}

void Server::Loop::shed_strangers(TimePoint now) {
  while (!strangers_.empty() && connections_.at(strangers_.front()).handshake->deadline <= now)
    drop(strangers_.front());
}

Result<void> Server::Loop::add(Connection connection) {
  epoll_event event{};
  event.events = connection.events = EPOLLIN;
  event.data.fd = connection.fd.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event.data.fd, &event) != 0)
    return Error{system_text("epoll_ctl", errno)};
  connections_.insert_or_assign(event.data.fd, std::move(connection));
  return {};
}

void Server::Loop::watch(Connection& connection) {
  const bool reads = !connection.closing && connection.queued < kQueueMax;
  const std::uint32_t wanted =
      (reads ? std::uint32_t{EPOLLIN} : 0) | (connection.out.empty() ? 0 : std::uint32_t{EPOLLOUT});
  if (wanted == connection.events)
    return;
  epoll_event event{};
  event.events = connection.events = wanted;
  event.data.fd = connection.fd.get();
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, event.data.fd, &event);
}

bool Server::Loop::read(Connection& connection, TimePoint now) {
  // A few pieces at a time, so that one rank's large value does not hold up the others.
  for (int i = 0; i < 16 && !connection.closing && connection.queued < kQueueMax; ++i) {
    // Of a stranger no more is taken in than its greeting, of any version.
    const std::size_t most = connection.handshake ? kGreetingMax : block_.size();
    const ssize_t got = ::recv(connection.fd.get(), block_.data(), most, 0);
    if (got == 0)
      return false;
    if (got < 0)
      return errno == EAGAIN || errno == EINTR;
    connection.silent = 0;
    std::string_view bytes(block_.data(), static_cast<std::size_t>(got));
    if (!connection.in.empty())
      bytes = connection.in.append(bytes);
    const auto used = consume(connection, bytes, now);
    if (!used)
      return false;
    if (*used == bytes.size())
      std::string().swap(connection.in); // frees it, too
    else if (connection.in.empty())
      connection.in = bytes.substr(*used);
    else
      connection.in.erase(0, *used);
    if (static_cast<std::size_t>(got) < most)
      break; // that was all for now
  }
  return !connection.closing || !connection.out.empty();
}

void Server::Loop::queue(Connection& connection, std::string head, Body body) {
  touched_.push_back(connection.fd.get());
  connection.queued += head.size() + (body ? body->size() : 0);
  connection.out.push_back({std::move(head), std::move(body)});
}

bool Server::Loop::write(Connection& connection) {
  while (!connection.out.empty()) {
    std::array<iovec, 16> parts;
    std::size_t count = 0;
    std::size_t skip = connection.sent;
    const auto put = [&](const std::string& text) {
      // sendmsg() does not write through the pointer, but iovec has no const.
      if (skip < text.size())
        parts[count++] = {const_cast<char*>(text.data()) + skip, text.size() - skip};
      skip -= std::min(skip, text.size());
    };
    for (const auto& [head, body] : connection.out) {
      if (count + 2 > parts.size())
        break;
      put(head);
      if (body)
        put(*body);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(connection.fd.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR)
        continue;
      return errno == EAGAIN;
    }
    connection.sent += static_cast<std::size_t>(sent);
    connection.queued -= static_cast<std::size_t>(sent);
    while (!connection.out.empty()) {
      const auto& [head, body] = connection.out.front();
      const std::size_t size = head.size() + (body ? body->size() : 0);
      if (connection.sent < size)
        break;
      connection.sent -= size;
      connection.out.pop_front();
    }
  }
  return !connection.closing;
}

// Queues what has been answered, writes, and drops what has ended, until neither leads to more.
void Server::Loop::settle() {
  for (agree_on_stop(); !answers_.empty() || !touched_.empty() || !ended_.empty();
       agree_on_stop()) {
    for (auto& made : std::exchange(answers_, {})) {
      const int fd = by_rank_[made.rank];
      if (fd < 0)
        continue;
      const auto length = static_cast<std::uint32_t>(made.body ? made.body->size() : 0);
      queue(connections_.at(fd), encode(Header{length, made.id, made.kind}), made.body);
    }
    for (const int fd : std::exchange(touched_, {})) {
      const auto found = connections_.find(fd);
      if (found == connections_.end())
        continue;
      if (write(found->second))
        watch(found->second);
      else
        ended_.push_back(fd);
    }
    for (const int fd : std::exchange(ended_, {}))
      drop(fd);
  }
}

// Counts the silence of all ranks.
void Server::Loop::tick(TimePoint now) {
  if (now >= stop_before_end_) {
    stop_before_end_ = TimePoint::max();
    want_stop("the job's time limit is near");
  }
  end_look_at_clock(now);
  if (now < next_tick_)
    return;
  const auto interval = heartbeat_interval(roster_.world());
  const std::uint32_t limit = silent_ticks(options_.silence_seconds, roster_.world());
  next_tick_ = now + interval;
  if (limit == 0)
    return;
  std::vector<int> silent;
  for (auto& [fd, connection] : connections_)
    if (!connection.handshake && ++connection.silent > limit)
      silent.push_back(fd);
  for (const int fd : silent)
    drop(fd, "nothing was heard of it for " + seconds_text(std::int64_t{limit} * interval.count()));
}

void Server::Loop::drop(int fd, const std::string& why) {
  const auto found = connections_.find(fd);
  if (found == connections_.end())
    return;
  Connection& connection = found->second;
  const bool open = !connection.handshake;
  const std::uint32_t rank = connection.rank;
  if (!open)
    strangers_.erase(connection.handshake->place);
  if (open && by_rank_[rank] == fd) {
    by_rank_[rank] = -1;
    if (roster_.of(rank) == Presence::kHere) {
      const std::string news = gone(
          rank, Presence::kLost, why.empty() ? "its connection ended without step_close()" : why);
      // One that is only stopped learns what became of it when it goes on.
      queue(connection, frame_of(News::kLost, news));
      (void)write(connection);
    }
  }
  connections_.erase(found); // closes it, which also ends epoll's watch
}

} // namespace dist_train
