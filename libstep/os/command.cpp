// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/command.h"

#include "libstep/os/connect.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char** environ;

namespace dist_train {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kKept = 4096;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

// 0 or an errno.
int spawn(const std::vector<std::string>& words, int output, pid_t& child) {
  std::vector<char*> argv;
  for (const auto& word : words)
    argv.push_back(const_cast<char*>(word.c_str())); // exec() leaves them alone
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  if (int error = posix_spawn_file_actions_init(&files))
    return error;
  if (int error = posix_spawnattr_init(&how)) {
    posix_spawn_file_actions_destroy(&files);
    return error;
  }
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  int error = posix_spawnp(&child, argv[0], &files, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// The status of an ended child; nothing at the deadline. An errno where it cannot be had.
Result<std::optional<int>> status_of(pid_t child, Clock::time_point deadline) {
  for (auto pause = 1ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 100ms)) {
    int status = 0;
    pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child)
      return std::optional<int>(status);
    if (got < 0 && errno != EINTR)
      return Error{std::strerror(errno)};
    if (Clock::now() >= deadline)
      return std::optional<int>();
    std::this_thread::sleep_for(pause);
  }
}

} // namespace

Result<std::string> run_command(const std::vector<std::string>& words,
                                std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error{"cannot run " + words.front() + ": " + std::strerror(errno)};
  Fd reading(ends[0]), writing(ends[1]);
  pid_t child = 0;
  if (int error = spawn(words, writing.get(), child))
    return Error{"cannot run " + words.front() + ": " + std::strerror(error),
                 "see whether it is installed here and in PATH"};
  writing.reset();

  std::string said;
  std::array<char, 1024> block;
  while (wait_for(reading, Ready::kRead, deadline)) {
    const auto got = read(reading.get(), block.data(), block.size());
    if (got <= 0)
      break;
    if (said.size() < kKept)
      said.append(block.data(), static_cast<std::size_t>(got));
  }
  auto status = status_of(child, deadline);
  if (status && !*status) {
    kill(child, SIGKILL);
    (void)status_of(child, Clock::now() + 5s);
    return Error{
        joined(words) + " did not end within " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s",
        "slurmctld may be down or busy"};
  }
  said.erase(said.find_last_not_of(" \t\r\n") + 1);
  if (!status)
    return Error{"the exit code of " + joined(words) + " is not known: " + status.error().message +
                 (said.empty() ? "" : "; it said: " + said)};
  if (WIFEXITED(**status) && WEXITSTATUS(**status) == 0)
    return said;
  return Error{joined(words) + ": " + (said.empty() ? "failed without a word" : said)};
}

} // namespace dist_train
