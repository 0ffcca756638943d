// SPDX-License-Identifier: BSD-3-Clause
#include "spank/watchdog.h"

#include <array>
#include <csignal>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

namespace dist_train {

namespace {

unsigned limit_seconds = 0; // 0: there is none
struct sigaction alarm_before, term_before;
sigset_t mask_before;
std::array<char, 16> name_before;

void end_stuck(int) {
  constexpr std::string_view kText =
      "dist-train: this task is stuck in the plugin and is ended; look at its node's name service "
      "and file systems\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(1);
}

void end_quietly(int) { _exit(1); }

struct sigaction calling(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  return action;
}

} // namespace

Watchdog::Watchdog(std::chrono::seconds limit) {
  auto on_alarm = calling(end_stuck), on_term = calling(end_quietly);
  sigaction(SIGALRM, &on_alarm, &alarm_before);
  sigaction(SIGTERM, &on_term, &term_before);
  sigset_t alarm_only; // slurmstepd blocks it
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarm_only, &mask_before);
  prctl(PR_GET_NAME, name_before.data());
  prctl(PR_SET_NAME, "dist-train");
  limit_seconds = static_cast<unsigned>(limit.count());
  alarm(limit_seconds);
}

void Watchdog::still_alive() {
  if (limit_seconds > 0)
    alarm(limit_seconds);
}

Watchdog::~Watchdog() {
  alarm(0);
  limit_seconds = 0;
  prctl(PR_SET_NAME, name_before.data());
  sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  sigaction(SIGALRM, &alarm_before, nullptr);
  sigaction(SIGTERM, &term_before, nullptr);
}

} // namespace dist_train
