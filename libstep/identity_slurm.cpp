// SPDX-License-Identifier: BSD-3-Clause
// srun alone. Slurm tells every task its place and how many tasks each node has, but not who runs
// on the other nodes: that is known for block distribution only, and checked against this node.
#include <algorithm>

#include "libstep/core/host_list.h"
#include "libstep/core/rank_map.h"
#include "libstep/core/task_counts.h"
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {
namespace {

// This node's ranks, or nothing when Slurm does not say.
std::optional<IdSet> ranks_here(Variables& variables, const Identity& identity) {
  if (!variables.has("SLURM_GTIDS"))
    return std::nullopt;
  auto ranks = parse_id_set(variables.text("SLURM_GTIDS"));
  const std::string seen = "SLURM_GTIDS=" + quoted(variables.text("SLURM_GTIDS"));
  if (!ranks)
    variables.complain({seen + ": " + ranks.error().message, "do not set SLURM_* variables"});
  else if (!std::binary_search(ranks->begin(), ranks->end(), identity.rank) ||
           ranks->back() >= identity.world)
    variables.complain({seen + " contradicts SLURM_PROCID=" + std::to_string(identity.rank) +
                            " of " + std::to_string(identity.world) + " tasks",
                        "do not set SLURM_* variables"});
  else
    return *std::move(ranks);
  return std::nullopt;
}

void name_nodes(Variables& variables, Identity& identity, const std::vector<std::string>& hosts,
                const std::vector<std::uint32_t>& counts) {
  identity.nodes.resize(identity.world);
  identity.nodes[identity.rank] = identity.node_name;
  const auto here = ranks_here(variables, identity);
  if (variables.problem() || !here)
    return;
  for (const auto rank : *here)
    identity.nodes[rank] = identity.node_name;
  const std::string distribution = variables.text("SLURM_DISTRIBUTION");
  if (hosts.size() != counts.size() || !(distribution.empty() || distribution.starts_with("block")))
    return;
  const auto map = deal_ranks(hosts, counts, Distribution::kBlock);
  if (!map || world_size(*map) != identity.world)
    return;
  const NodeRanks& dealt = map->nodes[node_rank_of(*map, identity.rank)];
  if (dealt.ranks != *here || dealt.name != identity.node_name)
    return;
  for (const auto& node : map->nodes)
    for (const auto rank : node.ranks)
      identity.nodes[rank] = node.name;
}

} // namespace

Result<Identity> slurm_identity(Variables variables, const std::string& host_name) {
  Identity identity;
  identity.source = STEP_SOURCE_SLURM;
  const auto job = variables.need_number("SLURM_JOB_ID", 0, UINT32_MAX);
  const auto step = variables.need_number("SLURM_STEP_ID", 0, UINT32_MAX);
  identity.world = variables.need_number("SLURM_STEP_NUM_TASKS", 1, kMaxWorld);
  identity.rank = variables.need_number("SLURM_PROCID", 0, identity.world - 1);
  identity.local_rank = variables.need_number("SLURM_LOCALID", 0, identity.world - 1);
  identity.restart_count = variables.number("SLURM_RESTART_COUNT", 0, UINT32_MAX, 0);
  identity.step_id = std::to_string(job) + "." + std::to_string(step);
  identity.source_text = "srun without --dist-train (step " + identity.step_id + ")";
  identity.node_name =
      variables.has("SLURMD_NODENAME") ? variables.text("SLURMD_NODENAME") : host_name;

  auto hosts = expand_host_list(variables.need_text("SLURM_STEP_NODELIST"));
  auto counts = parse_task_counts(variables.need_text("SLURM_STEP_TASKS_PER_NODE"));
  if (variables.problem())
    return *variables.problem();
  if (!hosts || hosts->empty())
    return Error{"SLURM_STEP_NODELIST=" + quoted(variables.text("SLURM_STEP_NODELIST")) + ": " +
                     (hosts ? "names no node" : hosts.error().message),
                 "do not set SLURM_* variables"};
  if (!counts || counts->empty())
    return Error{
        "SLURM_STEP_TASKS_PER_NODE=" + quoted(variables.text("SLURM_STEP_TASKS_PER_NODE")) + ": " +
            (counts ? "has no counts" : counts.error().message),
        "do not set SLURM_* variables"};

  // In a heterogeneous step the lists describe one component, the counts of tasks the whole.
  const bool whole = !variables.has("SLURM_HET_SIZE");
  std::uint64_t sum = 0;
  for (const auto count : *counts)
    sum += count;
  if (whole ? sum != identity.world : sum > identity.world)
    variables.complain(
        {"SLURM_STEP_TASKS_PER_NODE=" + quoted(variables.text("SLURM_STEP_TASKS_PER_NODE")) +
             " has " + std::to_string(sum) +
             " tasks, SLURM_STEP_NUM_TASKS=" + std::to_string(identity.world),
         "do not set SLURM_* variables"});
  identity.node_count = static_cast<std::uint32_t>(hosts->size());
  identity.node_rank = variables.number("SLURM_NODEID", 0, kMaxWorld, 0);
  if (whole && identity.node_rank >= identity.node_count)
    variables.complain({"SLURM_NODEID=" + std::to_string(identity.node_rank) +
                            " is not below the number of nodes in SLURM_STEP_NODELIST, " +
                            std::to_string(identity.node_count),
                        "do not set SLURM_* variables"});
  if (identity.node_rank < counts->size())
    identity.local_world = (*counts)[identity.node_rank];
  if (identity.local_rank >= identity.local_world && whole)
    variables.complain({"SLURM_LOCALID=" + std::to_string(identity.local_rank) +
                            " is not below the number of tasks on this node, " +
                            std::to_string(identity.local_world) + " by SLURM_STEP_TASKS_PER_NODE",
                        "do not set SLURM_* variables"});
  identity.local_world = std::max(identity.local_world, identity.local_rank + 1);
  // A launcher inside the task would have set these; a stale export of the user's, too. Which one
  // is meant cannot be told.
  if (variables.has("RANK") && variables.has("WORLD_SIZE")) {
    variables.expect("RANK", identity.rank, "SLURM_PROCID");
    variables.expect("WORLD_SIZE", identity.world, "SLURM_STEP_NUM_TASKS");
  }
  if (!variables.problem())
    name_nodes(variables, identity, *hosts, *counts);

  identity.master_address =
      variables.has("MASTER_ADDR") ? variables.text("MASTER_ADDR") : hosts->front();
  identity.master_port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, 65535, 0));
  if (variables.problem())
    return *variables.problem();

  // Task 0 runs on the first node, but for arbitrary distribution, where it may be any.
  identity.store_hosts = {hosts->front()};
  if (variables.text("SLURM_DISTRIBUTION").starts_with("arbitrary"))
    identity.store_hosts = *std::move(hosts);
  derive_meeting(identity, "slurm\n" + variables.text("SLURM_CLUSTER_NAME") + "\n" +
                               identity.step_id + "\n" + std::to_string(identity.restart_count));
  return identity;
}

} // namespace dist_train
