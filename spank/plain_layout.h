// SPDX-License-Identifier: BSD-3-Clause
// Layouts that every node can compute alone, without asking anybody. Pure.
#pragma once

#include "libstep/core/rank_map.h"
#include "spank/slurm_facts.h"

#include <optional>

namespace dist_train {

// The step's rank map when Slurm's variables settle it: cyclic, plane or (before Slurm 26.05, where
// it follows the network's topology) block, said by the user or by default, of a step that is not
// heterogeneous, and in agreement with this node's own ranks. Otherwise nothing: then only all nodes
// together know.
std::optional<RankMap> plain_layout(const SlurmFacts& facts);

} // namespace dist_train
