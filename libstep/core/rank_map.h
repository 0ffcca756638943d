// SPDX-License-Identifier: BSD-3-Clause
// Who runs where: the global ranks of every node of a step, and the text that carries it,
// "node01=0-3;node02=4;node03=5" (DIST_TRAIN_LAYOUT).
#pragma once

#include "libstep/core/id_set.h"
#include "libstep/core/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

struct NodeRanks {
  std::string name; // a host name
  IdSet ranks;      // ascending, not empty; the position is the local rank
  bool operator==(const NodeRanks&) const = default;
};

// In node-rank order, that is by first rank; the ranks are 0..N-1, each once.
struct RankMap {
  std::vector<NodeRanks> nodes;
  bool operator==(const RankMap&) const = default;
};

// How Slurm deals tasks out over nodes. Plane has its block size in tasks.
enum class Distribution { kBlock, kCyclic, kPlane };

// Deals 0..N-1 out over `hosts`, host i getting counts[i] tasks (0 leaves it out). Needs equally
// many hosts and counts, at least one task, and plane_size > 0 for kPlane.
Result<RankMap> deal_ranks(const std::vector<std::string>& hosts,
                           const std::vector<std::uint32_t>& counts, Distribution distribution,
                           std::uint32_t plane_size = 0);

// Sorts the nodes by first rank and checks that they hold 0..N-1, each once, under names of hosts
// that differ.
Result<RankMap> make_rank_map(std::vector<NodeRanks> nodes);

std::string layout_text(const RankMap& map);
Result<RankMap> parse_layout(std::string_view text);

std::uint32_t world_size(const RankMap& map);
// Index into map.nodes (the node rank); the rank must be below world_size().
std::uint32_t node_rank_of(const RankMap& map, std::uint32_t rank);

} // namespace dist_train
