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

// What a task tells srun beside where it is.
struct Particulars {
  MappingRow row;                 // this task's for the table
  std::optional<NodeFacts> facts; // from the first task of a node
};

// Waits for rank 0 (or in layouts that only all nodes together know, for all nodes) a little longer
// than the option `wait` says, so that srun, which knows all nodes, is the one to end the step and
// to name who is missing. An error without a text: rank 0 failed, and has told the user why.
Result<Meeting> meet(const SlurmFacts& facts, const Options& options, const BrokerAddress& broker,
                     Particulars particulars);

} // namespace dist_train
