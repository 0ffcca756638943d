// SPDX-License-Identifier: BSD-3-Clause
// What a node of a step says about itself, so that one place can compare all nodes.
#pragma once

#include <cstdint>
#include <string>

namespace dist_train {

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// As the first task of the node in the step finds it.
struct NodeFacts {
  std::string node;
  std::string plugin_version;    // of the plugin on the node, "0.1.0"
  std::uint32_t local_ranks = 0; // tasks of the step on the node
  std::uint32_t gpus = 0;        // that the task may see
  bool gpus_isolated =
      false;        // the tasks of the node see different ones (--gpus-per-task and the like)
  std::string hcas; // RDMA devices, sorted, "mlx5_0,mlx5_1"; "" when there is none
  std::uint64_t open_files = 0; // soft limit of the program, RLIMIT_NOFILE
  std::uint64_t open_files_hard = 0;
  std::uint64_t locked_memory = 0; // soft limit in bytes, RLIMIT_MEMLOCK; kUnlimited
  std::uint64_t shared_memory = 0; // size of /dev/shm in bytes; 0 when unknown
  std::uint32_t task_cores = 0;    // physical cores the task has for itself; 0 when unknown
  std::uint32_t task_cpus = 0;     // CPUs (hardware threads) in its mask; 0 when unknown
  std::uint32_t cpus_per_task = 0; // what the job asked for (SLURM_CPUS_PER_TASK); 0 when nothing
  std::string warnings;            // of placement, a line each
  bool operator==(const NodeFacts&) const = default;
};

} // namespace dist_train
