// SPDX-License-Identifier: BSD-3-Clause
// What Slurm tells a task about itself and its step. The only code that knows SPANK's items.
#pragma once

#include "libstep/core/environment.h"
#include "libstep/core/launchers.h"
#include "libstep/core/result.h"
#include "spank/export.h"

#include <optional>
#include <string>

namespace dist_train {

struct SlurmFacts {
  StepId id;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 0;
  IdSet node_ranks; // of this node
  std::string node_name;
  std::string node_list;      // compressed, Slurm's order
  std::string tasks_per_node; // compressed, in the order of node_list
  std::string reserved_ports; // "" if none
  std::string distribution;   // "block", "cyclic:block", ...; "" when the user said nothing
  std::uint32_t plane_size = 0;
  bool heterogeneous = false;
  std::uint32_t slurm_release = 0;  // 2205 for 22.05
  Environment environment;          // the task's, before our changes
  std::vector<std::string> command; // what the task runs; empty if Slurm does not tell
};

// Whose the task is.
struct TaskUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// In remote hooks.
Result<TaskUser> read_user(spank_t spank);

// NAME=VALUE strings, up to a null pointer.
Environment environment_of(char** strings);

// In srun's local_user_init only. Nothing where Slurm does not tell.
LaunchFacts read_launch(spank_t spank);

// Whether the hook's step is one that srun made: not batch, extern or interactive. An error when
// Slurm does not say.
Result<bool> is_srun_step(spank_t spank);

// A variable of the step, in any remote hook; nothing if it is not set, an error if it cannot be
// read or is longer than 4 KiB.
Result<std::optional<std::string>> read_variable(spank_t spank, const char* name);

// The same, where one that cannot be read is as good as none.
std::optional<std::string> step_variable(spank_t spank, const char* name);

// In task_init only. Everything is the user's text and checked.
Result<SlurmFacts> read_facts(spank_t spank);

// Applies the changes to the task's environment.
Result<void> apply_changes(spank_t spank, const std::vector<EnvChange>& changes);

} // namespace dist_train
