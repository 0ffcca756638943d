// SPDX-License-Identifier: BSD-3-Clause
// What one task of a step gets of its node, between what the planner would like and what Slurm and
// the user have decided before. Pure.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/options.h"
#include "libstep/core/placement.h"
#include "libstep/core/report.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dist_train {

// As a task finds things when Slurm is done with it.
struct TaskView {
  std::uint32_t local_rank = 0;
  std::uint32_t local_tasks = 1;
  BindRule bind = BindRule::kAuto;
  IdSet mask;  // the task's CPUs
  IdSet reach; // those that the kernel lets the task move to: the step's, where a cgroup fences it
  bool whole_node = false; // the job has all CPUs of the node
  bool bind_memory = true; // the user has not bound it
  bool gpus_isolated = false;
  // The task's visible GPUs by position: index into Machine::gpus, nothing where that is unknown.
  std::vector<std::optional<std::size_t>> gpus;
};

struct TaskShare {
  IdSet cpus;                // to bind to; empty: the mask stays
  IdSet memory;              // NUMA nodes to prefer; empty: no preference
  std::uint32_t threads = 0; // for OMP_NUM_THREADS; 0: as if nothing were bound
  MappingRow cells;          // gpu, numa, cores, nic, nic_class
  std::vector<std::pair<std::string, std::string>> variables; // where the user set none
  std::vector<std::string> warnings;                          // of the node
};

TaskShare share_of_task(const Machine& machine, const TaskView& view);

} // namespace dist_train
