// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/stop_signals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace dist_train {

namespace {

// What the handler sees. A handler has no argument of ours, so this cannot live in an object.
std::atomic<pid_t> owner{0}; // 0: no object
std::atomic<int> first_caught{0};
std::array<struct sigaction, NSIG> before;

// Calls async-signal-safe functions only.
void remember(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const pid_t me = getpid();
  if (me == owner.load()) {
    int none = 0;
    first_caught.compare_exchange_strong(none, signal);
  } else if (info->si_code <= 0 && // sent by a process
             (info->si_pid == owner.load() || info->si_pid == getppid() || info->si_pid == me)) {
    sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
    raise(signal); // comes through when this handler returns
  }
  errno = error;
}

struct sigaction ours() {
  struct sigaction action {};
  action.sa_sigaction = remember;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  return action;
}

} // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::install(const std::vector<int>& signals) {
  for (const int signal : signals)
    if (signal <= 0 || signal >= NSIG)
      return Error{"there is no signal " + std::to_string(signal)};
  pid_t nobody = 0;
  if (!owner.compare_exchange_strong(nobody, getpid()) && nobody == getpid())
    return Error{"this process catches signals for a step already",
                 "catch them once, for one open step"};
  owner = getpid(); // of a forked child that opened a step of its own
  first_caught = 0;
  std::unique_ptr<StopSignals> object(new StopSignals({}));
  for (const int signal : signals) {
    const struct sigaction action = ours();
    struct sigaction old {};
    if (sigaction(signal, nullptr, &old) != 0 || sigaction(signal, &action, nullptr) != 0)
      return Error{"cannot catch " + signal_name(signal) + ": " + std::strerror(errno)};
    before[static_cast<std::size_t>(signal)] = old;
    object->signals_.push_back(signal);
  }
  return object;
}

StopSignals::~StopSignals() {
  if (owner.load() != getpid())
    return;
  for (const int signal : signals_) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == remember)
      sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
  }
  owner = 0;
}

int StopSignals::caught() const { return first_caught.load(); }

std::string signal_name(int signal) {
  switch (signal) {
  case SIGTERM:
    return "SIGTERM";
  case SIGINT:
    return "SIGINT";
  case SIGHUP:
    return "SIGHUP";
  case SIGUSR1:
    return "SIGUSR1";
  case SIGUSR2:
    return "SIGUSR2";
  case SIGCONT:
    return "SIGCONT";
  default:
    return "signal " + std::to_string(signal);
  }
}

} // namespace dist_train
