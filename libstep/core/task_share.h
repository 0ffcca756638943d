// SPDX-License-Identifier: BSD-3-Clause
// What one task of a step gets of its node, between what the planner would like and what Slurm and
// the user have decided before. Pure; every task of a node comes to the same plan.
#pragma once

#include "libstep/core/environment.h"
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
  std::vector<IdSet> masks; // of all tasks of the node, by local rank; empty if not known
  bool whole_node = false;  // the job has all CPUs of the node
  IdSet memory;             // NUMA nodes whose memory it may prefer; empty: the user has bound it
  // The task's visible GPUs by position: index into Machine::gpus, nothing where that is unknown.
  std::vector<std::optional<std::size_t>> gpus;
  bool gpus_isolated = false; // other tasks of the node see others
  bool gpus_movable = false;  // their order is Slurm's, not the user's
  GpuRule gpu_rule = GpuRule::kShared;
  std::vector<std::size_t> barred_nics;
};

struct TaskShare {
  IdSet cpus;                       // to bind to; empty: the mask stays
  IdSet memory;                     // NUMA nodes to prefer, nearest first; empty: no preference
  std::uint32_t cores = 0;          // of the task alone; 0: as many as its mask says
  std::vector<std::size_t> devices; // positions of the GPUs it shall see; empty: as they are
  MappingRow cells;                 // gpu, numa, cores, nic, nic_class
  std::string gpus, numa, nics;     // "0000:1b:00.0,..."; "" where not known
  std::vector<std::pair<std::string, std::string>> variables; // where the user set none
  std::vector<std::string> warnings;                          // of the node
};

TaskShare share_of_task(const Machine& machine, const TaskView& view);

// The CPUs of all tasks of the node as Slurm tells each of them (SLURM_CPU_BIND_LIST); empty where
// it has bound none, or not by masks.
std::vector<IdSet> bound_masks(const Environment& environment, std::uint32_t local_tasks);

} // namespace dist_train
