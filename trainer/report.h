// SPDX-License-Identifier: BSD-3-Clause
// What rank 0 tells the user: lines on stdout (on a terminal one line that is rewritten), and
// output_dir/metrics.jsonl with one JSON object per entry. No torch.
#pragma once

#include "libstep/core/result.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace dist_train {

struct StepReport {
  int64_t step = 0; // from 1
  double loss = 0;  // mean since the last report
  double learning_rate = 0;
  double grad_norm = 0; // before clipping
  double epoch = 0;
  int64_t tokens = 0; // trained on so far, over all ranks
};

class Reporter {
public:
  using Clock = std::chrono::steady_clock;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  // Speaks on rank 0 only. Creates output_dir and an empty metrics.jsonl there. Error: cannot be
  // written, or something else than a file has that name.
  static Result<Reporter> open(const std::string& output_dir, int64_t steps, bool speaks);

  void line(const std::string& text); // on stdout
  void begin_training();              // rates are measured from here
  void step(const StepReport& report);
  void evaluation(int64_t step, double loss);
  void pause(); // time until the next resume() does not count for rates: evaluation, export
  void resume();
  // "name=value" lines of the end.
  void result(const std::string& name, double value);
  // Tokens per second over the whole training, pauses left out.
  double tokens_per_second() const;

private:
  void record(const std::string& json);
  double busy_seconds() const; // since begin_training(), without pauses

  bool speaks_ = false;
  bool terminal_ = false;
  bool line_open_ = false; // a rewritten line without its end
  int64_t steps_ = 0;
  std::string path_;
  File metrics_; // nullptr: none on this rank, or it could not be written any more
  Clock::time_point begin_ = Clock::now();
  Clock::time_point paused_at_ = begin_;
  double paused_ = 0;
  double last_seconds_ = 0; // busy seconds and tokens at the last report
  int64_t last_tokens_ = 0;
};

// "1 h 5 m", "1 m 20 s", "9 s"
std::string duration_text(double seconds);

double peak_memory_mib();        // of this process
double resident_memory_mib();    // of this process now
double seconds_since_start();    // of this process
std::string number_text(double); // shortest text with 9 digits, as JSON has it

} // namespace dist_train
