// SPDX-License-Identifier: BSD-3-Clause
#include "spank/plain_layout.h"

#include "libstep/core/host_list.h"
#include "libstep/core/task_counts.h"

namespace dist_train {

namespace {

constexpr std::uint32_t kTopologyOrderSince = 2605;

std::optional<Distribution> distribution_of(const SlurmFacts& facts) {
  // "cyclic:block,Pack": only the part for nodes matters.
  auto name = facts.distribution.substr(0, facts.distribution.find_first_of(":,"));
  if (name == "cyclic")
    return Distribution::kCyclic;
  if (name == "plane" && facts.plane_size > 0)
    return Distribution::kPlane;
  bool block = name == "block" || name.empty() || name == "unknown" || name == "*";
  bool in_list_order = facts.slurm_release != 0 && facts.slurm_release < kTopologyOrderSince;
  return block && in_list_order ? std::optional(Distribution::kBlock) : std::nullopt;
}

} // namespace

std::optional<RankMap> plain_layout(const SlurmFacts& facts) {
  auto distribution = distribution_of(facts);
  if (!distribution || facts.heterogeneous)
    return std::nullopt;
  auto hosts = expand_host_list(facts.node_list);
  auto counts = parse_task_counts(facts.tasks_per_node);
  if (!hosts || !counts)
    return std::nullopt;
  auto map = deal_ranks(*hosts, *counts, *distribution, facts.plane_size);
  if (!map || world_size(*map) != facts.world_size)
    return std::nullopt;
  const auto& node = map->nodes[node_rank_of(*map, facts.rank)];
  if (node.name != facts.node_name || node.ranks != facts.node_ranks)
    return std::nullopt;
  return *std::move(map);
}

} // namespace dist_train
