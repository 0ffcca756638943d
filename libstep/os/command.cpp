// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/command.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace dist_train {

namespace {

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

} // namespace

Command::Command(std::vector<std::string> words, std::chrono::milliseconds limit, Fd output,
                 pid_t child)
    : words_(std::move(words)), limit_(limit), deadline_(Clock::now() + limit),
      output_(std::move(output)), child_(child) {}

Command::Command(Command&& other) noexcept
    : words_(std::move(other.words_)), limit_(other.limit_), deadline_(other.deadline_),
      output_(std::move(other.output_)), child_(std::exchange(other.child_, 0)),
      said_(std::move(other.said_)) {}

Command::~Command() { end(); }

Result<Command> Command::start(std::vector<std::string> words, std::chrono::milliseconds limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error{"cannot run " + words.front() + ": " + std::strerror(errno)};
  Fd reading(ends[0]), writing(ends[1]);
  fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  pid_t child = 0;
  if (int error = spawn(words, writing.get(), child))
    return Error{"cannot run " + words.front() + ": " + std::strerror(error),
                 "see whether it is installed here and in PATH"};
  return Command(std::move(words), limit, std::move(reading), child);
}

std::optional<Result<std::string>> Command::look() {
  int status = 0;
  // The child's end first, so that all it wrote is there to be read after it.
  auto ended = waitpid(child_, &status, WNOHANG);
  const int why = errno;
  std::array<char, 1024> block;
  for (ssize_t got; (got = read(output_.get(), block.data(), block.size())) > 0;)
    if (said_.size() < kKept)
      said_.append(block.data(), static_cast<std::size_t>(got));
  if (ended == 0 || (ended < 0 && why == EINTR)) {
    if (Clock::now() < deadline_)
      return std::nullopt;
    end();
    return Error{
        joined(words_) + " did not end within " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit_).count()) + " s",
        "slurmctld may be down or busy"};
  }
  child_ = 0;
  said_.erase(said_.find_last_not_of(" \t\r\n") + 1);
  if (ended < 0)
    return Error{"the exit code of " + joined(words_) + " is not known: " + std::strerror(why) +
                 (said_.empty() ? "" : "; it said: " + said_)};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return said_;
  return Error{joined(words_) + ": " + (said_.empty() ? "failed without a word" : said_)};
}

void Command::end() {
  if (child_ == 0)
    return;
  kill(child_, SIGKILL);
  // One that hangs in a file system stays behind.
  for (int tries = 0; waitpid(child_, nullptr, WNOHANG) == 0 && tries < 100; ++tries)
    std::this_thread::sleep_for(10ms);
  child_ = 0;
}

Result<std::string> run_command(const std::vector<std::string>& words,
                                std::chrono::milliseconds limit,
                                const std::stop_token& unwanted) {
  auto command = Command::start(words, limit);
  if (!command)
    return command.error();
  for (auto pause = 1ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 50ms)) {
    if (auto said = command->look())
      return *std::move(said);
    if (unwanted.stop_requested())
      return Error{"nobody waits for " + joined(words)};
    std::this_thread::sleep_for(pause);
  }
}

} // namespace dist_train
