// SPDX-License-Identifier: BSD-3-Clause
// The CPUs this thread may run on.
#pragma once

#include "libstep/core/id_set.h"

namespace dist_train {

// OS numbers of the CPUs in the calling thread's mask; empty if it cannot be read.
IdSet allowed_cpus();

// How many physical cores these CPUs belong to (at least 1 for a set that is not empty). CPUs whose
// topology the kernel does not show count as a core each.
std::uint32_t count_cores(const IdSet& cpus);

} // namespace dist_train
