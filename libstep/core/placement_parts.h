// SPDX-License-Identifier: BSD-3-Clause
// The two halves of placement.cpp: cores and NICs.
#pragma once

#include "libstep/core/machine.h"

#include <string>
#include <vector>

namespace dist_train {

// How a task came to its cores.
enum class CoreSource {
  kLocal,    // next to it
  kSpilled,  // some from nodes of the package that have no GPU of the step
  kBorrowed, // some from farther, as those next to it are fewer than the tasks
  kShared,   // with other tasks, as all of them are fewer than the tasks
};

struct CoreSlice {
  IdSet cpus; // never empty
  std::uint32_t cores = 0;
  CoreSource source = CoreSource::kLocal;
};

// A slice for each task, out of `allowed` (not empty). `local` holds the CPUs next to each task,
// all of the machine's where it does not matter or is not known. Slices of tasks that are not
// kShared are disjoint; those of one locality differ by a core at most.
std::vector<CoreSlice> slice_cores(const Machine& machine, const IdSet& allowed,
                                   const std::vector<IdSet>& local);

struct NicChoice {
  std::vector<std::size_t> nics;        // the task's share of those equally good
  PathClass path = PathClass::kUnknown; // to them
  std::size_t equally_good = 0;         // before sharing
  std::vector<std::size_t> nearer_down; // nearer, but no port is active
  bool operator==(const NicChoice&) const = default;
};

struct NicPlan {
  Fabric fabric = Fabric::kNone;
  std::vector<std::size_t> usable;   // all of the fabric that may carry traffic, by address
  std::vector<std::size_t> left_out; // usable, but slower or of another fabric
  std::vector<NicChoice> choices;    // one for each place
};

// A place that wants a NIC: a GPU's, or NUMA nodes alone. Equal places (several tasks on a GPU)
// should be one.
struct NicSeeker {
  const PciPlace* pci = nullptr;
  IdSet numa;
};

// `barred` NICs are left out.
NicPlan choose_nics(const Machine& machine, const std::vector<NicSeeker>& seekers,
                    const std::vector<std::size_t>& barred);

} // namespace dist_train
