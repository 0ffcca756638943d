// SPDX-License-Identifier: BSD-3-Clause
// The machine under a task: read before a container hides it, used when Slurm is done with the
// task.
#pragma once

#include "libstep/core/devices.h"
#include "libstep/core/options.h"
#include "libstep/core/task_share.h"
#include "spank/slurm_facts.h"

#include <string_view>

namespace dist_train {

// Whether a step with these options (canonical text, which is not parsed) is placed at all.
bool places(std::string_view options);

// In task_init_privileged, as root: the machine's text form (core/machine_text.h), from the site's
// file (topology=), the node's cache, or what hwloc finds. A child with the rights of `user` does
// it, within seconds, and reads `options`: a failure there, or a hang, is an error here and nothing
// worse.
Result<std::string> read_node_machine(const std::string& options, const TaskUser& user);

// In task_init, as the user: what the task gets of its node and of its `devices`. Applies mask and
// memory policy; where the kernel refuses, or the machine could not be read, that is a warning of
// the share.
TaskShare take_share(const Result<std::string>& machine, const Options& options,
                     const SlurmFacts& facts, const TaskDevices& devices);

} // namespace dist_train
