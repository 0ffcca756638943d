// SPDX-License-Identifier: BSD-3-Clause
// What the placement tests share: machines to try, and folders to write to.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/placement.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace dist_train {

// The folder of other people's machines; $DIST_TRAIN_TOPOLOGIES, or what CMake was told. Empty when
// there is none.
std::filesystem::path topologies();

// A reason to skip, where they are not there.
inline constexpr const char* kNoTopologies =
    "no folder of real machines (CMake: DIST_TRAIN_TOPOLOGIES)";

// Files with an ending below a folder, sorted.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::string& ending);

// A machine from its text form; the test fails if that is wrong.
Machine machine_from(const std::string& text);

// Names of the machines of our own making below, and their text.
const std::vector<std::pair<std::string, std::string>>& own_machines();
Machine own_machine(const std::string& name);

// Anything a machine may look like, of up to 16 GPUs and 10 NICs.
Machine random_machine(std::mt19937& random);

// Regular NUMA nodes: `nodes` per package with `cores` cores and `threads` CPUs each, numbered as
// Linux does (second threads after all first ones).
std::string regular_cpus(unsigned packages, unsigned nodes, unsigned cores, unsigned threads);

// The CPUs of the node in such a machine.
std::string node_cpus(unsigned packages, unsigned nodes, unsigned cores, unsigned threads,
                      unsigned node);

// A request for all GPUs of the machine.
PlacementRequest all_gpus(const Machine& machine, std::uint32_t tasks);

// A folder of this test's own, gone at the end.
class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Writes a file below it, with the folders on the way.
  std::string write(const std::string& name, const std::string& content) const;

private:
  std::filesystem::path folder_;
};

// Standard output and error of a shell command together, and its exit code.
struct Outcome {
  std::string text;
  int code = -1;
};
Outcome run_command(const std::string& line);

} // namespace dist_train
