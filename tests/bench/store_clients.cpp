// SPDX-License-Identifier: BSD-3-Clause
// Many clients of a store in one process, all at once: each joins, adds 1 to one counter and waits
// for the key that the last one sets.
// usage: bench_store_clients step|c10d PORT CLIENTS [TOKEN]
// They connect to 127.0.0.1 to 127.0.0.8 in turn. Prints one JSON object: seconds from the first
// connect to the last client's count (`joined`) and to its waking (`seconds`), and of CPU. Stays
// connected until its standard input ends.
#include "tests/bench/store_talk.h"

#include "libstep/os/fd.h"
#include "tests/bench/await_end.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace dist_train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kAddresses = 8;
constexpr int kLongestSilenceMs = 120'000;

[[noreturn]] void give_up(std::uint32_t client, const std::string& why) {
  std::fprintf(stderr, "bench_store_clients: client %u: %s\n", client, why.c_str());
  std::exit(1);
}

struct Client {
  Fd fd;
  std::unique_ptr<Talk> talk;
  std::string out, in;
  std::size_t hear = 0;
  bool connected = false;
};

class Crowd {
public:
  Crowd(std::uint16_t port, std::uint32_t clients) : port_(port), clients_(clients) {}

  template <typename MakeTalk>
  void run(MakeTalk make_talk) {
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    begin_ = Clock::now();
    const std::clock_t cpu = std::clock();
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
      clients_[i].talk = make_talk(i);
      connect(i);
      serve(0); // what has come meanwhile
    }
    while (done_ < clients_.size())
      serve(kLongestSilenceMs);
    std::chrono::duration<double> seconds = Clock::now() - begin_;
    std::printf("{\"joined\": %.4f, \"seconds\": %.4f, \"clients_cpu\": %.4f}\n", joined_,
                seconds.count(), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    std::fflush(stdout);
    await_end_of_input();
  }

private:
  void connect(std::uint32_t number) {
    Client& client = clients_[number];
    client.fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int one = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number % kAddresses);
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u32 = number;
    if (!client.fd ||
        setsockopt(client.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        (::connect(client.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.fd.get(), &event) != 0)
      give_up(number, std::string("cannot connect: ") + std::strerror(errno));
  }

  void serve(int patience_ms) {
    std::array<epoll_event, 256> events;
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), patience_ms);
    if (count == 0 && patience_ms > 0)
      give_up(0, "nothing happened for two minutes; " + std::to_string(done_) + " of " +
                     std::to_string(clients_.size()) + " clients are done");
    for (int i = 0; i < count; ++i)
      advance(events[static_cast<std::size_t>(i)].data.u32);
  }

  void advance(std::uint32_t number) {
    Client& client = clients_[number];
    if (!client.connected) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(client.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0)
        give_up(number, std::string("cannot connect: ") + std::strerror(error));
      client.connected = true;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = number;
      epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.fd.get(), &event);
      return take_turn(number, "");
    }
    std::array<char, 4096> block;
    const ssize_t got = recv(client.fd.get(), block.data(), client.hear - client.in.size(), 0);
    if (got <= 0)
      give_up(number, got == 0 ? "the server closed the connection" : std::strerror(errno));
    client.in.append(block.data(), static_cast<std::size_t>(got));
    if (client.in.size() == client.hear)
      take_turn(number, std::exchange(client.in, {}));
  }

  void take_turn(std::uint32_t number, const std::string& heard) {
    Client& client = clients_[number];
    const auto turn = client.talk->next(heard);
    if (!turn)
      give_up(number, "the server's answer makes no sense");
    if (turn->counted && ++counted_ == clients_.size())
      joined_ = std::chrono::duration<double>(Clock::now() - begin_).count();
    client.hear = turn->hear;
    if (client.hear == 0) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.fd.get(), nullptr);
      ++done_; // stays connected, as a rank does
      return;
    }
    // Some hundred bytes always fit in the buffer of a stream that was read empty.
    if (send(client.fd.get(), turn->say.data(), turn->say.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(turn->say.size()))
      give_up(number, std::string("send: ") + std::strerror(errno));
  }

  std::uint16_t port_;
  std::vector<Client> clients_;
  Fd epoll_;
  Clock::time_point begin_;
  std::size_t counted_ = 0, done_ = 0;
  double joined_ = 0;
};

int run(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (argc < 4 || (kind != "step" && kind != "c10d")) {
    std::fprintf(stderr, "usage: bench_store_clients step|c10d PORT CLIENTS [TOKEN]\n");
    return 2;
  }
  const auto clients = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  const rlimit limit{clients + 100, clients + 100};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    give_up(0, "cannot have " + std::to_string(limit.rlim_cur) + " open files");
  Crowd crowd(static_cast<std::uint16_t>(std::strtoul(argv[2], nullptr, 10)), clients);
  const std::string token = argc > 4 ? argv[4] : "";
  if (kind == "step")
    crowd.run([&](std::uint32_t i) { return std::make_unique<StepTalk>(i, clients, token); });
  else
    crowd.run([&](std::uint32_t) { return std::make_unique<C10dTalk>(clients); });
  return 0;
}

} // namespace
} // namespace dist_train

int main(int argc, char** argv) { return dist_train::run(argc, argv); }
