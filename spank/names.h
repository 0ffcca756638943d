// SPDX-License-Identifier: BSD-3-Clause
// Names of the variables between srun's plugin and the tasks' plugin. They begin with SLURM so that
// --export=NONE keeps them; the tasks never see them.
#pragma once

namespace dist_train {

inline constexpr const char* kUserVariable = "SLURM_DIST_TRAIN"; // the user's, in option grammar
inline constexpr const char* kOptionsVariable = "SLURM_DIST_TRAIN_OPTIONS"; // canonical text
inline constexpr const char* kTokenVariable = "SLURM_DIST_TRAIN_TOKEN";     // 32 hexadecimal digits
inline constexpr const char* kBrokerVariable = "SLURM_DIST_TRAIN_BROKER";   // port on srun's host
inline constexpr const char* kKillVariable = "SLURM_DIST_TRAIN_KILL";       // 1: the next is ours
inline constexpr const char* kSlurmKillVariable = "SLURM_KILL_BAD_EXIT";

} // namespace dist_train
