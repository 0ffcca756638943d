// SPDX-License-Identifier: BSD-3-Clause
// The least that N clients cost: own_clients.h without any store. Each of 8 threads connects its
// clients one after the other, each of which exchanges messages of a store's sizes with a server
// that does nothing but answer, and a last one that is answered once all have come so far.
// usage: bench_tcp_floor CLIENTS EXCHANGES. Prints one JSON object with the seconds it took.
#include "libstep/os/port.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace dist_train;

namespace {

constexpr std::uint32_t kAddresses = 8;
constexpr std::size_t kMessage = 64;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Echo {
public:
  Echo(int listener, std::size_t clients, std::size_t exchanges)
      : listener_(listener), clients_(clients), exchanges_(exchanges), heard_(clients + 200) {}

  [[noreturn]] void serve() {
    watch(listener_);
    std::array<epoll_event, 64> events;
    for (;;) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i)
        if (const int fd = events[static_cast<std::size_t>(i)].data.fd; fd != listener_)
          answer(fd);
        else
          accept_all();
    }
  }

private:
  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      give_up("epoll_ctl");
  }

  void accept_all() {
    for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
      watch(fd);
      answer(fd);
    }
  }

  void say(int fd) { (void)::send(fd, block_.data(), block_.size(), MSG_NOSIGNAL); }

  void answer(int fd) {
    if (::recv(fd, block_.data(), block_.size(), 0) <= 0)
      return;
    const std::size_t heard = ++heard_[static_cast<std::size_t>(fd)];
    if (heard <= exchanges_)
      say(fd);
    else if (waiting_.push_back(fd); all_come_)
      say(fd);
    if (heard == exchanges_ && ++come_ == clients_) {
      all_come_ = true;
      for (const int waiting : waiting_)
        say(waiting);
    }
  }

  int listener_;
  int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::size_t clients_, exchanges_, come_ = 0;
  bool all_come_ = false;
  std::vector<std::size_t> heard_; // by descriptor
  std::vector<int> waiting_;
  std::array<char, kMessage> block_{};
};

void set(int fd, int name, int value) {
  (void)setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
}

void exchange(int fd) {
  std::array<char, kMessage> block{};
  if (::send(fd, block.data(), block.size(), MSG_NOSIGNAL) < 0 ||
      ::recv(fd, block.data(), block.size(), 0) <= 0)
    give_up("exchange");
}

void talk(std::uint32_t address, std::uint16_t port, std::size_t clients, std::size_t exchanges) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK + address);
  std::vector<int> streams;
  for (std::size_t number = address; number < clients; number += kAddresses) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set(fd, TCP_QUICKACK, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&target), sizeof target) != 0)
      give_up("connect");
    set(fd, TCP_NODELAY, 1);
    set(fd, TCP_QUICKACK, 0);
    for (std::size_t i = 0; i < exchanges; ++i)
      exchange(fd);
    streams.push_back(fd);
  }
  for (const int fd : streams)
    exchange(fd);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3)
    return 2;
  const std::size_t clients = std::strtoul(argv[1], nullptr, 10);
  const std::size_t exchanges = std::strtoul(argv[2], nullptr, 10);
  if (clients == 0 || exchanges == 0)
    return 2;
  const rlimit limit{clients + 100, clients + 100};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    give_up("setrlimit");
  auto listener = listen_on(0, false);
  if (!listener)
    give_up("listen");
  const auto port = port_of(*listener);
  const int fd = listener->get();
  set(fd, TCP_NODELAY, 1);
  set(fd, TCP_QUICKACK, 0); // what it accepts is set alike
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
    give_up("fcntl");
  const pid_t server = ::fork();
  if (server < 0)
    give_up("fork");
  if (server == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Echo(fd, clients, exchanges).serve();
  }

  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::uint32_t address = 0; address < kAddresses; ++address)
    threads.emplace_back(talk, address, port, clients, exchanges);
  for (auto& thread : threads)
    thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("{\"seconds\": %.4f}\n", seconds.count());
  std::fflush(stdout);
  (void)::kill(server, SIGKILL);
  std::_Exit(0);
}
