// SPDX-License-Identifier: BSD-3-Clause
// Names that several parts of the plugin must agree on.
#pragma once

namespace dist_train {

inline constexpr const char* kPluginVersion = DIST_TRAIN_RELEASE;

// What sbatch and salloc set for the option: Slurm makes it from the plugin's and the option's
// name. Slurm drops the first part, up to the second underscore, when srun begins.
inline constexpr const char* kPassedOnVariable =
    "SLURM_SPANK__SLURM_SPANK_OPTION_dist_train_dist_train";

// From srun's plugin to the tasks' plugin; the tasks never see them. The names begin with SLURM so
// that --export=NONE keeps them.
inline constexpr const char* kUserVariable = "SLURM_DIST_TRAIN"; // the user's, in option grammar
inline constexpr const char* kOptionsVariable = "SLURM_DIST_TRAIN_OPTIONS"; // canonical text
inline constexpr const char* kTokenVariable = "SLURM_DIST_TRAIN_TOKEN";     // 32 hexadecimal digits
inline constexpr const char* kBrokerVariable = "SLURM_DIST_TRAIN_BROKER";   // port on srun's host
inline constexpr const char* kKillVariable = "SLURM_DIST_TRAIN_KILL";       // 1: the next is ours
inline constexpr const char* kSlurmKillVariable = "SLURM_KILL_BAD_EXIT";

} // namespace dist_train
