// SPDX-License-Identifier: BSD-3-Clause
#include "spank/broker.h"

#include "libstep/core/report.h"
#include "libstep/core/text.h"
#include "libstep/os/port.h"
#include "spank/slurm_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace dist_train {

using namespace std::chrono_literals;

namespace {

// srun's own limit of open files is often 1,024; more tasks wait in the kernel's queue.
constexpr std::size_t kMaxConnections = 256;
constexpr auto kConnectionTime = 10s;   // for a report and its answer
constexpr auto kLastReports = 200ms;    // when the step ends
constexpr auto kProgressInterval = 60s; // while nodes are missing

} // namespace

struct Broker::Connection {
  Fd fd;
  Clock::time_point deadline;
  std::string in = {};
  std::string out = {};
  std::size_t sent = 0;
};

Result<std::unique_ptr<Broker>> Broker::open(std::optional<PortRange> range) {
  Token token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return Error{std::string("no random numbers for the step's token: ") + std::strerror(errno),
                 ""};
  if (!range) {
    auto fd = listen_on(0, false);
    if (!fd)
      return fd.error();
    return std::unique_ptr<Broker>(new Broker(*std::move(fd), token));
  }
  // Begin at a random place, so that many sruns on one host do not try the same ports.
  std::uint32_t size = range->high - range->low + 1u;
  std::uint32_t begin =
      static_cast<unsigned char>(token[0]) * 256u + static_cast<unsigned char>(token[1]);
  for (std::uint32_t i = 0; i < size; ++i) {
    auto fd = listen_on(static_cast<std::uint16_t>(range->low + (begin + i) % size), true);
    if (fd) {
      // The token must not show in the choice of the port.
      if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
        break;
      return std::unique_ptr<Broker>(new Broker(*std::move(fd), token));
    }
  }
  return Error{"no free port in SrunPortRange " + std::to_string(range->low) + "-" +
                   std::to_string(range->high),
               "ask the site to widen it, or end other sruns on this host"};
}

Broker::Broker(Fd listener, Token token)
    : listener_(std::move(listener)), port_(port_of(listener_)), token_(token) {
  fcntl(listener_.get(), F_SETFL, O_NONBLOCK); // accept_all() takes what is there
}

Broker::~Broker() { stop(); }

Result<void> Broker::start(const Options& options) {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_)
    return Error{std::string("cannot start the rendezvous in srun: ") + std::strerror(errno), ""};
  options_ = options;
  table_done_ = !options.verbose.value_or(false);
  started_ = Clock::now();
  next_progress_ = started_ + kProgressInterval;
  // srun handles its signals in threads of its own; they must not land in ours.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::exception& e) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return Error{std::string("cannot start the rendezvous in srun: ") + e.what(), ""};
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Broker::stop() {
  if (!thread_.joinable())
    return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Broker::serve() {
  bool stopping = false;
  auto end = Clock::time_point::max();
  while (!stopping || (Clock::now() < end && !connections_.empty())) {
    std::vector<pollfd> polled{
        {stopping ? -1 : wake_.get(), POLLIN, 0},
        {connections_.size() < kMaxConnections ? listener_.get() : -1, POLLIN, 0}};
    for (const auto& connection : connections_)
      polled.push_back({connection->fd.get(),
                        static_cast<short>(connection->out.empty() ? POLLIN : POLLOUT), 0});
    if (poll(polled.data(), polled.size(), stopping ? 20 : 1000) < 0 && errno != EINTR)
      break;
    if (polled[0].revents && !stopping) {
      stopping = true;
      end = Clock::now() + kLastReports;
      accept_all();
    }
    auto now = Clock::now();
    for (std::size_t i = 0; i + 2 < polled.size(); ++i) {
      auto& connection = connections_[i];
      if (connection->deadline < now || (polled[i + 2].revents && !advance(*connection)))
        connection.reset();
    }
    std::erase(connections_, nullptr);
    if (polled[1].revents)
      accept_all();
    if (!table_done_ && roll_call_.all_rows_here())
      print_table();
    if (now >= next_progress_ && !stopping)
      progress();
  }
  connections_.clear();
  if (!table_done_ && !roll_call_.rows().empty())
    print_table();
}

void Broker::accept_all() {
  while (connections_.size() < kMaxConnections) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd)
      return;
    connections_.push_back(
        std::make_unique<Connection>(Connection{std::move(fd), Clock::now() + kConnectionTime}));
    if (!advance(*connections_.back()))
      connections_.pop_back();
  }
}

bool Broker::advance(Connection& c) {
  if (c.out.empty()) {
    std::array<char, kReportSize> block;
    auto got = recv(c.fd.get(), block.data(), kReportSize - c.in.size(), 0);
    if (got < 0)
      return errno == EAGAIN || errno == EINTR;
    if (got == 0)
      return false;
    c.in.append(block.data(), static_cast<std::size_t>(got));
    if (c.in.size() < kReportSize)
      return true;
    auto report = decode_report(c.in, token_);
    if (!report) // a stranger, or a plugin of another version
      return false;
    c.out = encode(roll_call_.take(*report), token_, report->nonce);
  }
  auto sent = send(c.fd.get(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
  if (sent < 0)
    return errno == EAGAIN || errno == EINTR;
  c.sent += static_cast<std::size_t>(sent);
  return c.sent < c.out.size();
}

void Broker::progress() {
  next_progress_ += kProgressInterval;
  if (roll_call_.all_nodes_here())
    return;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_).count();
  std::string text;
  if (roll_call_.nodes_here() == 0) {
    text = "no node of the step has shown itself";
  } else {
    auto missing = roll_call_.missing_nodes();
    text = std::to_string(roll_call_.nodes_here()) + " of " +
           std::to_string(roll_call_.node_count()) + " nodes are here; waiting for " +
           (missing.empty() ? "the others" : listing(missing)) + " (no sign of " +
           (missing.size() == 1 ? "it" : "them");
  }
  tell_user(text + " for " + std::to_string(seconds) +
            (roll_call_.nodes_here() == 0 ? " s" : " s)") +
            ". The plugin may be missing there, or cannot reach this host's port " +
            std::to_string(port_));
}

void Broker::print_table() {
  table_done_ = true;
  auto rows = roll_call_.rows();
  auto count = rows.size();
  bool complete = roll_call_.all_rows_here();
  auto nodes = roll_call_.node_count();
  std::string master = "unknown";
  if (const auto& m = roll_call_.master()) {
    master = m->node + ' ' + host_port_text(m->address, m->ports.master);
    if (!m->interface.empty())
      master += " (" + m->interface + ')';
  }
  std::chrono::duration<double> seconds = Clock::now() - started_;
  MappingHeader header{step_text(roll_call_.id()), to_text(options_.mode.value_or(Mode::kTorch)),
                       roll_call_.world_size(),    static_cast<std::uint32_t>(nodes),
                       std::move(master),          seconds.count()};
  auto text = mapping_table(header, std::move(rows));
  if (!complete) {
    auto missing = roll_call_.missing_nodes();
    text += "dist-train: " + std::to_string(roll_call_.world_size() - count) + " of " +
            std::to_string(roll_call_.world_size()) + " ranks did not report" +
            (missing.empty() ? "" : "; no sign of " + listing(missing)) + '\n';
  }
  write_to_user(text);
}

} // namespace dist_train
