// SPDX-License-Identifier: BSD-3-Clause
// Which of several voices decides: srun's line, SLURM_DIST_TRAIN, what sbatch or salloc passed on,
// and the plugstack line. Pure.
#pragma once

#include "libstep/core/options.h"
#include "spank/srun_line.h"

namespace dist_train {

// What each voice said; a voice that was silent is absent.
struct Voices {
  std::optional<Options> line;        // srun's own
  std::optional<Options> environment; // SLURM_DIST_TRAIN
  std::optional<Options> inherited;   // sbatch's or salloc's command line
  std::optional<Options> plugstack;
  // A launcher started srun for daemons of its own, whose children would take what the daemon has
  // for their own rank: only srun's line counts.
  bool by_launcher = false;
};

// The merged options, always with a mode: kOff when nobody switched the step on. The option itself
// on a command line does (unless it says off); words elsewhere do so only by naming a mode. `bind`
// is kKeep where the user has asked a binding of Slurm.
Options decide(const Voices& voices, CpuBind cpu_bind = CpuBind::kUnsaid);

} // namespace dist_train
