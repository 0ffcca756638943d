// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/failure.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace dist_train {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 500ms;         // between SIGTERM and the end, for the news of a lost rank
constexpr auto kFailureGrace = 2000ms; // the same after a failed collective

constexpr char kSpoken[] = "dist-trainer/failed"; // key of the store: a failing rank has spoken

std::atomic<bool> terminated = false; // SIGTERM came first: losses are its result, not the cause

sigset_t terminating_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

void write_error(const std::string& text) {
  // One write, so that lines of several ranks do not mix; nothing to be done if it fails.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

// One rank's report to the others.
struct Report {
  int64_t failed = 0;
  uint64_t hash = 0;
};

// "ranks 0-2,5"
std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    if (i > 0)
      text += ",";
    text += std::to_string(ranks[i]);
    if (last > i)
      text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

} // namespace

void print_error(const Error& error) {
  std::string text = "dist-trainer: error: " + error.message + "\n";
  if (!error.caret.empty())
    text += error.caret + (error.caret.back() == '\n' ? "" : "\n");
  if (!error.hint.empty())
    text += "  " + error.hint + "\n";
  write_error(text);
}

std::string describe_rank(const step_t* step, int rank) {
  const std::string node = step_node_of(step, rank);
  int local = 0;
  for (int other = 0; other < rank; ++other)
    local += step_node_of(step, other) == node;
  return "rank " + std::to_string(rank) + " (" + node + ", local " + std::to_string(local) + ")";
}

uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

bool agree(step_t* step, const Result<void>& mine, double seconds, const Shared& shared) {
  const int world = step_world_size(step);
  const Report report{!mine, shared.hash};
  std::vector<Report> reports(static_cast<size_t>(world));
  if (step_all_gather(step, &report, sizeof report, reports.data(), seconds) != STEP_OK) {
    // Everyone who waits fails alike; who failed by itself has more to say.
    if (!mine)
      print_error(mine.error());
    else if (step_rank(step) == 0 || report.failed)
      print_error({step_error(step), step_hint(step)});
    return false;
  }
  std::vector<int> failing;
  for (int rank = 0; rank < world; ++rank)
    if (reports[size_t(rank)].failed)
      failing.push_back(rank);
  if (failing.empty()) {
    const auto other = std::find_if(reports.begin(), reports.end(),
                                    [&](const Report& r) { return r.hash != reports[0].hash; });
    if (other != reports.end() && step_rank(step) == 0)
      print_error({describe_rank(step, int(other - reports.begin())) + " has " + shared.what +
                       " other than rank 0's",
                   "give all ranks the same options, and let them see the same files"});
    return other == reports.end();
  }
  if (step_rank(step) == failing.front()) {
    Error error = mine.error();
    if (int(failing.size()) < world)
      error.message += " (" + rank_list(failing) + " of " + std::to_string(world) +
                       (failing.size() == 1 ? ", on " : ", first on ") +
                       step_node_of(step, failing.front()) + ")";
    print_error(error);
  }
  return false;
}

void Watcher::hold_signals() {
  const sigset_t set = terminating_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    std::this_thread::sleep_for(kGrace);
    terminated = true;
    _exit(128 + signal);
  }).detach();
}

Watcher::Watcher(step_t* step) : step_(step) {
  if (step_world_size(step) > 1)
    thread_ = std::thread([this] { watch(); });
}

Watcher::~Watcher() {
  if (!thread_.joinable())
    return;
  step_close_watch(step_);
  thread_.join();
}

void Watcher::watch() {
  int lost = 0;
  if (step_wait_lost(step_, &lost, -1) != STEP_OK || terminated)
    return; // closed
  const int speaker = lost == 0 ? 1 : 0;
  char byte = 0;
  size_t length = sizeof byte;
  const bool has_spoken = lost != 0 && step_get(step_, kSpoken, &byte, &length, 0) == STEP_OK;
  if (step_rank(step_) == speaker && !has_spoken)
    write_error(describe_rank(step_, lost) + " left at step " +
                std::to_string(training_step_.load()) + "; the others stop\n");
  _exit(1);
}

bool Watcher::speak_first() {
  int first = 1;
  if (step_world_size(step_) > 1 &&
      step_compare_and_set(step_, kSpoken, nullptr, 0, "1", 1, &first) != STEP_OK)
    std::this_thread::sleep_for(kFailureGrace); // rank 0 is gone: the watching thread ends us
  return first != 0;
}

void Watcher::leave(const Error& error) {
  if (speak_first())
    print_error({describe_rank(step_, step_rank(step_)) + ": " + error.message, error.hint});
  _exit(1);
}

void Watcher::fail(const std::string& what) {
  if (thread_.joinable())
    std::this_thread::sleep_for(kFailureGrace); // the watching thread ends the process meanwhile
  if (speak_first())
    write_error(describe_rank(step_, step_rank(step_)) + " failed at step " +
                std::to_string(training_step_.load()) + ": " + what + "\n");
  _exit(1);
}

} // namespace dist_train
