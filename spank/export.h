// SPDX-License-Identifier: BSD-3-Clause
// What a shared object must export to be a SPANK plugin, written by hand: Slurm's SPANK_PLUGIN
// macro defines const objects, which have internal linkage in C++.
#pragma once

#include <cstdint> // spank.h needs it and does not include it

#include <cerrno>

// spank.h gives C linkage to its functions only, not to the hooks that a plugin defines.
extern "C" {
#include <slurm/spank.h>
}

#define DIST_TRAIN_EXPORT extern "C" __attribute__((visibility("default")))

static_assert(SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(22, 5, 0),
              "Slurm 22.05 or newer is needed");
