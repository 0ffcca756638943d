// SPDX-License-Identifier: BSD-3-Clause
// A node's facts, gathered by the first task of the step on it.
#pragma once

#include "libstep/core/devices.h"
#include "libstep/core/id_set.h"
#include "libstep/core/node_facts.h"
#include "spank/slurm_facts.h"

namespace dist_train {

// In task_init, as the user. `cpus` is the task's mask, `cores` what it has of it for itself. Reads
// limits and a few fixed paths, takes well below a millisecond; what cannot be read is 0 or "".
NodeFacts gather_node_facts(const SlurmFacts& facts, const TaskDevices& devices, const IdSet& cpus,
                            std::uint32_t cores);

} // namespace dist_train
