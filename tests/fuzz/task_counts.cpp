// SPDX-License-Identifier: BSD-3-Clause
// Slurm's tasks-per-node lists.
#include "libstep/core/task_counts.h"
#include "libstep/core/host_list.h"
#include "tests/fuzz/check.h"

#include <numeric>
#include <string>

using namespace dist_train;
using namespace dist_train::fuzz;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto counts = parse_task_counts(text_of(data, size));
  if (!counts) {
    require_readable(counts.error());
    return 0;
  }
  require(!counts->empty() && counts->size() <= kMaxHosts, "1 to kMaxHosts counts");
  require(std::accumulate(counts->begin(), counts->end(), std::uint64_t{0}) <= kMaxTasks,
          "at most kMaxTasks tasks");
  // Slurm's own way to write it, run by run.
  std::string text;
  for (std::size_t i = 0; i < counts->size() && text.size() < 4096;) {
    auto end = i + 1;
    while (end < counts->size() && (*counts)[end] == (*counts)[i])
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string((*counts)[i]) + "(x" +
            std::to_string(end - i) + ")";
    i = end;
  }
  auto again = parse_task_counts(text);
  require(again && again->size() <= counts->size() &&
              std::equal(again->begin(), again->end(), counts->begin()),
          "runs of equal counts mean the same");
  return 0;
}
