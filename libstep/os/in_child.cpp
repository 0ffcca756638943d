// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/in_child.h"

#include "libstep/os/fd.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>

namespace dist_train {

namespace {

constexpr rlim_t kAddressSpace = rlim_t{2} << 30;

// What the child writes: one of these, the texts with a NUL after each, nothing more.
constexpr char kValue = 'v', kError = 'e';

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    auto wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote <= 0)
      return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

using Clock = std::chrono::steady_clock;

// What comes until the other end closes; nothing if that takes too long.
std::optional<std::string> read_all(int fd, Clock::time_point deadline) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    int came = left > 0 ? poll(&ready, 1, static_cast<int>(left)) : 0;
    if (came == 0)
      return std::nullopt;
    auto got = came < 0 ? -1 : read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

[[noreturn]] void child(int fd, const std::function<Result<std::string>()>& work,
                        unsigned seconds) {
  sigset_t ours;
  sigemptyset(&ours);
  for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) {
    signal(number, SIG_DFL); // a handler of the caller's would tell of a crash that is none
    sigaddset(&ours, number);
  }
  sigprocmask(SIG_UNBLOCK, &ours, nullptr);
  alarm(seconds);
  rlimit none{0, 0}, cpu{seconds, seconds};
  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_CPU, &cpu);
#ifndef DIST_TRAIN_SANITIZED // a sanitizer's shadow takes more
  rlimit space{kAddressSpace, kAddressSpace};
  setrlimit(RLIMIT_AS, &space);
#endif
  std::string answer;
  try {
    auto result = work();
    answer = result ? kValue + *std::move(result) + '\0'
                    : kError + result.error().message + '\0' + result.error().hint + '\0';
  } catch (const std::exception& error) {
    answer = std::string(1, kError) + error.what() + '\0' + '\0';
  }
  write_all(fd, answer);
  _exit(0);
}

} // namespace

Result<std::string> in_child(const std::function<Result<std::string>()>& work, unsigned seconds) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error{std::string("no pipe: ") + std::strerror(errno)};
  Fd reading(ends[0]), writing(ends[1]);
  auto pid = fork();
  if (pid < 0)
    return Error{std::string("no process: ") + std::strerror(errno)};
  if (pid == 0)
    child(writing.get(), work, seconds);
  writing.reset();
  // Its own alarm comes first, unless it sleeps where no signal wakes it: then it is left behind.
  auto came = read_all(reading.get(), Clock::now() + std::chrono::seconds(seconds + 1));
  if (!came) {
    kill(pid, SIGKILL);
    return Error{"its reading hangs in the kernel"};
  }
  const auto& answer = *came;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  auto end = answer.find('\0');
  if (end == answer.npos)
    return Error{"its reading broke" + (WIFSIGNALED(status)
                                            ? std::string(" (") + strsignal(WTERMSIG(status)) + ")"
                                            : std::string())};
  if (answer.front() == kValue)
    return answer.substr(1, end - 1);
  return Error{answer.substr(1, end - 1), answer.substr(end + 1, answer.size() - end - 2)};
}

} // namespace dist_train
