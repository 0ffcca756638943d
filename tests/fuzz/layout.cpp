// SPDX-License-Identifier: BSD-3-Clause
// Who runs where: the layout that travels in a variable, and the one that a node computes from
// Slurm's. Input: lines; the first is a layout, then node list, tasks per node, distribution and
// the node's own place.
#include "libstep/core/host_list.h"
#include "libstep/core/rank_map.h"
#include "libstep/core/task_counts.h"
#include "libstep/core/text.h"
#include "spank/plain_layout.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

void require_whole(const RankMap& map) {
  require(!map.nodes.empty() && map.nodes.size() <= kMaxHosts, "1 to kMaxHosts nodes");
  auto world = world_size(map);
  require(world > 0 && world <= kMaxTasks, "1 to kMaxTasks ranks");
  for (std::size_t i = 0; i < map.nodes.size(); ++i) {
    const auto& ranks = map.nodes[i].ranks;
    require(!ranks.empty() && ranks.back() < world, "a node has ranks of the world");
    require(i == 0 || map.nodes[i - 1].ranks.front() < ranks.front(), "nodes by first rank");
  }
  require(map.nodes.front().ranks.front() == 0, "rank 0 is on node 0");
  require(node_rank_of(map, world - 1) < map.nodes.size(), "the last rank has a node");
  auto again = parse_layout(layout_text(map));
  require(again && *again == map, "a layout's text means the same");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto lines = split(text_of(data, size), '\n');
  lines.resize(7);
  if (auto map = parse_layout(lines[0]))
    require_whole(*map);
  else
    require_readable(map.error());

  SlurmFacts facts;
  facts.node_list = lines[1];
  facts.tasks_per_node = lines[2];
  facts.distribution = lines[3];
  facts.node_name = lines[4];
  if (auto ranks = parse_id_set(lines[5]))
    facts.node_ranks = *std::move(ranks);
  facts.world_size = static_cast<std::uint32_t>(parse_number(lines[6], UINT32_MAX).value_or(1));
  facts.rank = facts.node_ranks.empty() ? 0 : facts.node_ranks.front();
  facts.plane_size = facts.world_size % 5;
  facts.slurm_release = facts.world_size % 2 == 0 ? 2205 : 2605;
  if (facts.rank >= facts.world_size) // read_facts() refuses it
    return 0;
  if (auto map = plain_layout(facts)) {
    require(world_size(*map) == facts.world_size, "a plain layout is of the step's size");
    require(map->nodes[node_rank_of(*map, facts.rank)].name == facts.node_name,
            "a plain layout agrees with the node's own place");
    require_whole(*map);
  }
  return 0;
}
