// SPDX-License-Identifier: BSD-3-Clause
// A whole run, from the configuration to the exported model.
#pragma once

#include "trainer/config.h"
#include "trainer/failure.h"

#include <libstep/step.h>

namespace dist_train {

// Collective over the step's ranks. True when the run went through; else one rank has said why.
// Failures in mid-run (a collective that breaks) leave as exceptions.
bool run(step_t* step, const Config& config, Watcher& watcher);

} // namespace dist_train
