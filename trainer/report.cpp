// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dist_train {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// An empty regular file to write to.
Result<Reporter::File> create_file(const std::string& path) {
  // O_NONBLOCK: a FIFO without a reader must not hang us before it is refused below.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  struct stat status {};
  const bool opened = fd >= 0 && fstat(fd, &status) == 0;
  const bool regular = opened ? S_ISREG(status.st_mode) : errno != ENXIO; // ENXIO: such a FIFO
  Reporter::File file;
  if (opened && regular && ftruncate(fd, 0) == 0)
    file.reset(fdopen(fd, "w"));
  if (file)
    return file;
  const std::string reason = regular ? std::strerror(errno) : "it is not a regular file";
  if (fd >= 0)
    close(fd);
  return Error{"cannot write " + path + ": " + reason,
               regular ? "output_dir must be a folder that rank 0 can write to"
                       : "remove it, or choose another output_dir"};
}

} // namespace

std::string number_text(double value) {
  return std::isfinite(value) ? format("%.9g", value) : "null";
}

std::string duration_text(double seconds) {
  const auto total = int64_t(std::clamp(seconds, 0.0, 1e9) + 0.5);
  const auto unit = [](int64_t number, const char* name) {
    return std::to_string(number) + " " + name;
  };
  if (total >= 86400)
    return unit(total / 86400, "d ") + unit(total % 86400 / 3600, "h");
  if (total >= 3600)
    return unit(total / 3600, "h ") + unit(total % 3600 / 60, "m");
  if (total >= 60)
    return unit(total / 60, "m ") + unit(total % 60, "s");
  return unit(total, "s");
}

double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;
}

double resident_memory_mib() {
  std::ifstream statm("/proc/self/statm"); // pages: of the address space, resident
  double pages = 0;
  statm >> pages >> pages;
  return pages * double(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double seconds_since_start() {
  // Field 22 of /proc/self/stat: start in ticks after boot; the name before it may hold spaces.
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int field = 3; field < 22; ++field)
    fields >> skipped;
  double ticks = 0;
  fields >> ticks;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9 - ticks / double(sysconf(_SC_CLK_TCK));
}

Result<Reporter> Reporter::open(const std::string& output_dir, int64_t steps, bool speaks) {
  Reporter reporter;
  reporter.speaks_ = speaks;
  reporter.steps_ = steps;
  reporter.terminal_ = speaks && isatty(STDOUT_FILENO);
  if (!speaks)
    return reporter;
  std::error_code error;
  std::filesystem::create_directories(output_dir, error);
  if (error)
    return Error{"cannot make " + output_dir + ": " + error.message(),
                 "output_dir must be a folder that rank 0 can write to"};
  reporter.path_ = output_dir + "/metrics.jsonl";
  auto metrics = create_file(reporter.path_);
  if (!metrics)
    return metrics.error();
  reporter.metrics_ = *std::move(metrics);
  return reporter;
}

void Reporter::line(const std::string& text) {
  if (!speaks_)
    return;
  std::printf("%s%s\n", line_open_ ? "\n" : "", text.c_str());
  std::fflush(stdout);
  line_open_ = false;
}

void Reporter::begin_training() {
  begin_ = Clock::now();
  paused_ = last_seconds_ = 0;
}

void Reporter::pause() { paused_at_ = Clock::now(); }

void Reporter::resume() {
  paused_ += std::chrono::duration<double>(Clock::now() - paused_at_).count();
}

double Reporter::busy_seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count() - paused_;
}

double Reporter::tokens_per_second() const {
  return double(last_tokens_) / std::max(1e-9, last_seconds_);
}

void Reporter::step(const StepReport& report) {
  const double seconds = busy_seconds();
  const double rate =
      double(report.tokens - last_tokens_) / std::max(1e-9, seconds - last_seconds_);
  last_seconds_ = seconds;
  last_tokens_ = report.tokens;
  if (!speaks_)
    return;
  const double left = seconds / double(report.step) * double(steps_ - report.step);
  const std::string text =
      "step " + std::to_string(report.step) + "/" + std::to_string(steps_) +
      format("  loss %.4f", report.loss) + format("  lr %.3g", report.learning_rate) +
      format("  grad %.3g", report.grad_norm) +
      (rate < 10000 ? format("  %.0f tok/s", rate) : format("  %.1fk tok/s", rate / 1000)) +
      (report.step < steps_ ? "  ETA " + duration_text(left) : "");
  std::printf(terminal_ ? "\r%s\033[K" : "%s\n", text.c_str());
  std::fflush(stdout);
  line_open_ = terminal_;
  record("{\"step\": " + std::to_string(report.step) + ", \"loss\": " + number_text(report.loss) +
         ", \"grad_norm\": " + number_text(report.grad_norm) + ", \"learning_rate\": " +
         number_text(report.learning_rate) + ", \"epoch\": " + number_text(report.epoch) +
         ", \"tokens\": " + std::to_string(report.tokens) + ", \"tokens_per_second\": " +
         number_text(rate) + ", \"peak_memory_mib\": " + number_text(peak_memory_mib()) + "}");
}

void Reporter::evaluation(int64_t step, double loss) {
  line("step " + std::to_string(step) + "/" + std::to_string(steps_) +
       format("  eval_loss %.4f", loss));
  record("{\"step\": " + std::to_string(step) + ", \"eval_loss\": " + number_text(loss) + "}");
}

void Reporter::result(const std::string& name, double value) {
  line(name + "=" + number_text(value));
}

void Reporter::record(const std::string& json) {
  if (!metrics_)
    return;
  // Training is worth more than its log: say so once and go on.
  if (std::fprintf(metrics_.get(), "%s\n", json.c_str()) < 0 || std::fflush(metrics_.get()) != 0) {
    metrics_.reset();
    std::fprintf(stderr, "dist-trainer: cannot write %s any more (disk full?); training goes on\n",
                 path_.c_str());
  }
}

} // namespace dist_train
