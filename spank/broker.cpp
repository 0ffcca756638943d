// SPDX-License-Identifier: BSD-3-Clause
#include "spank/broker.h"

#include "libstep/core/slurm_job.h"
#include "libstep/os/port.h"
#include "spank/export.h"
#include "spank/slurm_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace dist_train {

using namespace std::chrono_literals;

namespace {

// Of srun's open files, of which it needs its own; more tasks wait in the kernel's queue.
constexpr std::size_t kMaxConnections = 256;
constexpr rlim_t kShareOfFiles = 4;
constexpr auto kCommandTime = 20s;    // for scontrol and squeue
constexpr auto kConnectionTime = 10s; // for a report and its answer
constexpr auto kCrowdedTime = 500ms;  // the same when all places are taken
constexpr auto kLastReports = 200ms;  // when the step ends
constexpr auto kLastCommand = 5s;     // of a job that is requeued, the step may end before scontrol

// accept_all() takes what is there, so the socket must not block.
Result<Fd> open_listener(std::uint16_t port, bool over_lingering) {
  auto fd = listen_on(port, over_lingering);
  if (fd && (fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0 || port_of(*fd) == 0))
    return Error{std::string("cannot open the rendezvous in srun: ") + std::strerror(errno), ""};
  return fd;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<std::string> command_for(SrunWish wish, const StepId& id) {
  Environment environment;
  for (const char* name :
       {"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID"})
    if (const char* value = std::getenv(name))
      environment[name] = value;
  auto job = job_text(environment);
  if (job.empty()) // an srun that made its own allocation
    job = std::to_string(id.job);
  return wish == SrunWish::kRequeue ? requeue_command(job) : time_left_command(job);
}

std::size_t max_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return kMaxConnections;
  return std::clamp<std::size_t>(limit.rlim_cur / kShareOfFiles, 1, kMaxConnections);
}

} // namespace

struct Broker::Connection {
  Fd fd;
  Clock::time_point since;
  std::string in = {};
  std::string out = {};
  std::size_t sent = 0;
  std::optional<SrunRequest> request = {};

  bool waits_for_slurm() const { return request && out.empty(); }
  short awaited() const { return waits_for_slurm() ? 0 : out.empty() ? POLLIN : POLLOUT; }
};

Result<std::unique_ptr<Broker>> Broker::open(std::optional<PortRange> range) {
  Token token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return Error{std::string("no random numbers for the step's token: ") + std::strerror(errno),
                 ""};
  if (!range) {
    auto fd = open_listener(0, false);
    if (!fd)
      return fd.error();
    return std::unique_ptr<Broker>(new Broker(*std::move(fd), token));
  }
  // Begin at a random place, so that many sruns on one host do not try the same ports.
  std::uint32_t size = range->high - range->low + 1u;
  std::uint32_t begin =
      static_cast<unsigned char>(token[0]) * 256u + static_cast<unsigned char>(token[1]);
  for (std::uint32_t i = 0; i < size; ++i) {
    auto fd = open_listener(static_cast<std::uint16_t>(range->low + (begin + i) % size), true);
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
    : listener_(std::move(listener)), port_(port_of(listener_)), token_(token) {}

Broker::~Broker() { stop(); }

Result<void> Broker::start(const Options& options) {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_)
    return Error{std::string("cannot start the rendezvous in srun: ") + std::strerror(errno), ""};
  watch_.emplace(options, port_);
  most_connections_ = max_connections();
  // srun handles its signals in threads of its own; they must not land in ours.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
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

// Once nobody serves, tasks must be refused, not left waiting for an answer.
void Broker::run() noexcept {
  try {
    serve();
  } catch (const std::exception& e) {
    slurm_error("dist-train: the rendezvous in srun ended: %s", e.what());
  }
  connections_.clear();
  listener_ = Fd();
}

void Broker::serve() {
  started_ = Clock::now();
  auto end = Clock::time_point::max();
  while (!stopping_ ||
         (!connections_.empty() && Clock::now() < end + (command_ ? kLastCommand : 0s))) {
    bool crowded = connections_.size() >= most_connections_ || std::exchange(no_files_, false);
    std::vector<pollfd> polled{{stopping_ ? -1 : wake_.get(), POLLIN, 0},
                               {crowded ? -1 : listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections_)
      polled.push_back({connection->fd.get(), connection->awaited(), 0});
    int pause = stopping_ || command_ ? 20 : crowded ? 100 : 1000; // milliseconds
    if (poll(polled.data(), polled.size(), pause) < 0 && errno != EINTR)
      break;
    if (polled[0].revents && !stopping_) {
      stopping_ = true;
      end = Clock::now() + kLastReports;
      accept_all();
    }
    // Whoever holds places without a word must not keep the tasks out.
    auto oldest = Clock::now() - (crowded ? Clock::duration(kCrowdedTime) : kConnectionTime);
    for (std::size_t i = 0; i + 2 < polled.size(); ++i) {
      auto& connection = connections_[i];
      if ((connection->since < oldest && !connection->waits_for_slurm()) ||
          (polled[i + 2].revents && !advance(*connection)))
        connection.reset();
    }
    std::erase(connections_, nullptr);
    if (polled[1].revents)
      accept_all();
    attend_to_requests();
    say_what_is_new();
  }
  write_to_user(watch_->last_words(roll_call_, seconds_since(started_)));
}

void Broker::accept_all() {
  while (connections_.size() < most_connections_) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      no_files_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      return;
    }
    connections_.push_back(std::make_unique<Connection>(Connection{std::move(fd), Clock::now()}));
    if (!advance(*connections_.back()))
      connections_.pop_back();
  }
}

bool Broker::take_request(Connection& c) {
  if (c.in.size() < kSrunRequestSize)
    return true;
  c.request = decode_srun_request(c.in, token_text(token_));
  return c.request.has_value();
}

// Begins the command that somebody waits for, and answers all who wait for one that has ended.
void Broker::attend_to_requests() {
  std::optional<Result<std::string>> said;
  if (command_) {
    said = command_->look();
  } else {
    auto first = std::find_if(connections_.begin(), connections_.end(),
                              [](const auto& c) { return c->waits_for_slurm(); });
    if (first == connections_.end())
      return;
    wish_ = (*first)->request->wish;
    auto command = Command::start(command_for(wish_, roll_call_.id()), kCommandTime);
    if (command)
      command_.emplace(*std::move(command));
    else
      said = command.error();
  }
  if (!said)
    return;
  command_.reset();
  for (auto& c : connections_) {
    if (!c->waits_for_slurm() || c->request->wish != wish_)
      continue;
    c->since = Clock::now();
    c->out = encode(SrunAnswer{bool(*said), *said ? **said : said->error().message},
                    token_text(token_), *c->request);
    if (!advance(*c))
      c.reset();
  }
  std::erase(connections_, nullptr);
}

bool Broker::advance(Connection& c) {
  if (c.waits_for_slurm()) // it has gone
    return false;
  if (c.out.empty()) {
    std::array<char, kReportSize> block;
    auto wanted = begins_srun_request(c.in) ? kSrunRequestSize : kReportSize;
    auto got = recv(c.fd.get(), block.data(), wanted - c.in.size(), 0);
    if (got < 0)
      return errno == EAGAIN || errno == EINTR;
    if (got == 0)
      return false;
    c.in.append(block.data(), static_cast<std::size_t>(got));
    if (begins_srun_request(c.in))
      return take_request(c);
    if (c.in.size() < kReportSize)
      return true;
    auto report = decode_report(c.in, token_);
    if (!report) // a stranger, or a plugin of another version
      return false;
    auto answer = roll_call_.take(*report);
    say_what_is_new();
    c.out = encode(answer, token_, report->nonce);
  }
  auto sent = send(c.fd.get(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
  if (sent < 0)
    return errno == EAGAIN || errno == EINTR;
  c.sent += static_cast<std::size_t>(sent);
  return c.sent < c.out.size();
}

void Broker::say_what_is_new() {
  auto remark = watch_->look(roll_call_, seconds_since(started_));
  for (const auto& failure : remark.failures)
    log_error(failure);
  write_to_user(remark.text);
  if (!remark.end || ended_ || stopping_)
    return;
  ended_ = true;
  log_error(*remark.end);
  // srun ends its step on this signal; the tasks that still wait here notice that it is gone.
  kill(getpid(), SIGTERM);
}

} // namespace dist_train
