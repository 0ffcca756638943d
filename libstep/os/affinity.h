// SPDX-License-Identifier: BSD-3-Clause
// The CPUs this thread may run on.
#pragma once

#include "libstep/core/environment.h"
#include "libstep/core/id_set.h"

namespace dist_train {

// OS numbers of the CPUs in the calling thread's mask; empty if it cannot be read.
IdSet allowed_cpus();

// Those that the thread's mask could be widened to: what a cpuset cgroup leaves of the machine. The
// mask itself is afterwards as before. Empty if it cannot be found out.
IdSet reachable_cpus();

// Makes these CPUs the calling thread's mask, or these NUMA nodes the ones its pages are preferred
// on. The error says why the kernel refused; all stays as it was then.
Result<void> bind_to_cpus(const IdSet& cpus);
Result<void> prefer_memory_of(const IdSet& numa);

// NUMA nodes whose memory the kernel lets this process use; empty if it cannot be read.
IdSet allowed_memory();

// How many physical cores these CPUs belong to (at least 1 for a set that is not empty). CPUs whose
// topology the kernel does not show count as a core each.
std::uint32_t count_cores(const IdSet& cpus);

// Cores for this task alone, of those behind its CPUs; 0 if they are not known. Tasks that Slurm
// did not bind, by their environment, share the CPUs of their node, and would each start as many
// threads as there are cores.
std::uint32_t cores_of_task(const Environment& environment, const IdSet& cpus,
                            std::uint32_t local_tasks);

} // namespace dist_train
