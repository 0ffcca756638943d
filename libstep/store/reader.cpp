// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libstep/store/client.h"
#include "libstep/store/heartbeat.h"
#include "libstep/store/threads.h"

namespace dist_train {

Result<std::shared_ptr<Reader>> Reader::start(std::uint32_t world) {
  std::shared_ptr<Reader> reader(new Reader(world));
  reader->epoll_ = Socket(::epoll_create1(EPOLL_CLOEXEC));
  reader->wake_ = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!reader->epoll_ || !reader->wake_ ||
      ::epoll_ctl(reader->epoll_.get(), EPOLL_CTL_ADD, reader->wake_.get(), &event) != 0)
    return Error{system_text("epoll or eventfd", errno)};
  auto thread = start_quiet_thread("libstep-answers", [raw = reader.get()] { raw->run(); });
  if (!thread)
    return thread.error();
  reader->thread_ = *std::move(thread);
  return reader;
}

Reader::~Reader() {
  ends_ = true;
  wake();
  if (thread_.joinable())
    thread_.join();
}

void Reader::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

Result<void> Reader::add(Client& client) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &client;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.stream_.get(), &event) != 0)
    return Error{system_text("epoll_ctl", errno)};
  clients_.insert(&client);
  return {};
}

void Reader::remove(Client& client) {
  const std::lock_guard lock(mutex_);
  clients_.erase(&client);
  let_go(client);
}

void Reader::let_go(Client& client) {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.stream_.get(), nullptr);
}

void Reader::watch(Client& client, bool on) {
  epoll_event event{};
  event.events = on ? std::uint32_t{EPOLLIN} : 0;
  event.data.ptr = &client;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.stream_.get(), &event);
}

void Reader::try_again_soon() {
  owed_ = true;
  wake();
}

void Reader::run() {
  const auto interval = heartbeat_interval(world_);
  TimePoint next_tick = Clock::now() + interval;
  TimePoint next_try = TimePoint::max(); // to send what clients owe
  std::array<epoll_event, 64> events;
  while (!ends_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(),
                                   milliseconds_until(std::min(next_tick, next_try)));
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      auto* client = static_cast<Client*>(events[static_cast<std::size_t>(i)].data.ptr);
      std::uint64_t ignored = 0;
      if (client == nullptr)
        (void)!::read(wake_.get(), &ignored, sizeof ignored);
      else if (clients_.contains(client)) // else removed meanwhile
        client->read_unless_read();
    }
    const TimePoint now = Clock::now();
    if (now >= next_try) {
      next_try = TimePoint::max();
      for (Client* client : clients_)
        client->or_end([=] { client->tell_passed(); });
    }
    if (owed_.exchange(false))
      next_try = std::min(next_try, now + std::chrono::milliseconds(10));
    if (now < next_tick)
      continue;
    next_tick = now + interval;
    for (Client* client : clients_)
      client->or_end([=] { client->tick(); });
  }
}

} // namespace dist_train
