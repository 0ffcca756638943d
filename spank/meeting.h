// SPDX-License-Identifier: BSD-3-Clause
// How a task finds the others, in task_init: reserved ports where they suffice, srun's broker, a
// hash of job and step where no broker runs. Rank 0 binds the ports and says where it is.
#pragma once

#include "libstep/core/environment.h"
#include "libstep/core/options.h"
#include "libstep/os/fd.h"
#include "spank/broker_client.h"
#include "spank/slurm_facts.h"

namespace dist_train {

struct Meeting {
  TaskPlan plan; // without cores and descriptors
  Fd store;      // rank 0: listens on plan.ports.store
  Fd held;       // rank 0: bound to plan.ports.master
  Fd jax;        // rank 0: bound to plan.ports.jax
};

// What a task tells srun of its step and of itself: all but where rank 0 is. The row is `row`.
Report report_of(const SlurmFacts& facts, const Options& options, MappingRow row);

// Waits for rank 0 (or in layouts that only all nodes together know, for all nodes) a little longer
// than the option `wait` says, so that srun, which knows all nodes, is the one to end the step and
// to name who is missing. An error does not say which rank it is of; without a text: srun has told
// the user why the step ends.
Result<Meeting> meet(const SlurmFacts& facts, const Options& options, const BrokerAddress& broker,
                     Report report);

} // namespace dist_train
