// SPDX-License-Identifier: BSD-3-Clause
// dist-trainer: trains a Hugging Face model with all ranks of a job step.
#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/mapped_file.h"
#include "trainer/torch.h"
#include "trainer/train.h"

#include <libstep/step.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <malloc.h>
#include <sched.h>

namespace dist_train {
namespace {

constexpr double kAgreeSeconds = 300; // for the configuration, which alone knows step_timeout

Result<Config> read_config(const ConfigArguments& arguments) {
  if (arguments.file.empty())
    return make_config("", "", arguments.overrides);
  const auto file = MappedFile::open(
      arguments.file, "give a JSON file, or --name=value options alone", kLargestConfigFile);
  if (!file)
    return file.error();
  return make_config(arguments.file, std::string(file->text()), arguments.overrides);
}

// Ranks of one node share its cores when nothing else says how many threads each may have.
void set_threads(const step_t* step) {
  at::set_num_interop_threads(1);
  if (std::getenv("OMP_NUM_THREADS"))
    return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  at::set_num_threads(std::max(1, cores / std::max(1, step_local_world_size(step))));
}

// Activations are freed and allocated anew in every block: keep their memory, so that the kernel
// need not clear it again each time.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// c10 puts a stack trace below the sentence.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int run_step(step_t* step, const std::vector<std::string>& words) {
  const auto arguments = parse_arguments(words);
  if (arguments && arguments->help) {
    if (step_rank(step) == 0)
      std::fputs(config_help().c_str(), stdout);
    return 0;
  }
  Watcher watcher(step);
  try {
    set_threads(step);
    const auto config = arguments ? read_config(*arguments) : Result<Config>(arguments.error());
    Shared options{"a configuration"};
    if (config) {
      Config without_place = *config; // a folder may have another name on each node
      without_place.output_dir.clear();
      options.hash = hash_of(config_json(without_place));
    }
    if (!agree(step, config ? Result<void>() : Result<void>(config.error()), kAgreeSeconds, options))
      return 1;
    return run(step, *config, watcher) ? 0 : 1;
  } catch (const std::exception& failure) {
    watcher.fail(first_line(failure.what()));
  }
}

} // namespace
} // namespace dist_train

int main(int argc, char** argv) try {
  using namespace dist_train;
  std::signal(SIGPIPE, SIG_IGN); // a peer that is gone is an error of the call, not our end
  keep_freed_memory();
  Watcher::hold_signals();
  step_t* step = nullptr;
  if (step_open(&step, nullptr) != STEP_OK) {
    print_error({step_error(nullptr), step_hint(nullptr)});
    return 1;
  }
  const int code = run_step(step, {argv + 1, argv + argc});
  step_close(step);
  return code;
} catch (const std::exception& failure) { // a thread that cannot be made, before run_step() guards
  dist_train::print_error({std::string("cannot start: ") + failure.what(),
                           "threads: ulimit -u, and pids.max of the job's cgroup"});
  return 1;
}
