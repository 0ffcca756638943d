// SPDX-License-Identifier: BSD-3-Clause
// Which GPU, cores, memory and NIC each task of a node gets. Pure: a Machine and what the step may
// use in, a plan with its reasons out.
//
// Cores: slices of whole cores next to the task's GPU, inside the step's CPUs. GPUs that share a
//   NUMA node take GPU-less nodes of their package too, until each task has one; where the cores
//   next to the GPUs are fewer than the tasks, those of the package, then of the machine, are
//   shared out; where even those are too few, tasks share cores.
// NIC: usable (active, of the fabric), then fastest, then nearest, then shared fairly.
#pragma once

#include "libstep/core/machine.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist_train {

// kGpu: own cores next to the GPU; kNuma: all CPUs of the GPU's NUMA nodes; kCore: own cores
// without regard to GPUs; kNone: masks stay as they are (cpus is empty).
enum class Binding { kGpu, kNuma, kCore, kNone };

struct PlacementRequest {
  std::uint32_t tasks = 0;       // on this node
  std::vector<std::size_t> gpus; // of Machine::gpus, in the order the tasks see them
  IdSet cpus;                    // of the step; empty: all that the machine allows
  Binding binding = Binding::kGpu;
  std::vector<std::size_t> barred; // of Machine::nics, ascending: never to be used
};

struct TaskPlacement {
  // Indices into Machine::gpus, the task's own first. Several where the GPUs are a multiple of the
  // tasks; the same one in several tasks where there are more tasks; none where there are none.
  std::vector<std::size_t> gpus;
  IdSet cpus;                    // never outside the step's; empty only with kNone
  std::uint32_t cores = 0;       // physical cores of cpus
  bool shared = false;           // other tasks have them too
  IdSet numa;                    // next to the GPU, or to the cores without one; empty if unknown
  IdSet memory;                  // nodes to prefer, nearest first; empty: no preference
  std::vector<std::size_t> nics; // indices into Machine::nics
  PathClass nic_class = PathClass::kUnknown; // to them
  std::string ucx_device;                    // "mlx5_0:1"; "" where UCX should choose
  std::string why;                           // in words
};

struct Placement {
  std::vector<TaskPlacement> tasks;  // by local rank
  std::string ib_hca;                // NCCL_IB_HCA for all tasks of the node; "": leave it unset
  std::vector<std::string> warnings; // what costs speed here, a line each
};

Placement plan_placement(const Machine& machine, const PlacementRequest& request);

// Names and values for a task's environment; where the user set one, it stays.
std::vector<std::pair<std::string, std::string>> placement_variables(const Placement& placement);
std::vector<std::pair<std::string, std::string>> task_variables(const TaskPlacement& task);

// NICs that a nic= list ("mlx5_+^mlx5_7", "none") does not admit: names and beginnings of names of
// RDMA devices and interfaces; '^' excludes, and a list of exclusions alone admits all others.
std::vector<std::size_t> barred_nics(const Machine& machine, std::string_view list);

// OMP_NUM_THREADS for a task with so many cores of its own: one a core, but with a GPU some stay
// free for the threads of NCCL and the data loader.
std::uint32_t omp_threads(std::uint32_t cores, bool gpu);

} // namespace dist_train
