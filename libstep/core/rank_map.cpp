// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/rank_map.h"

#include "libstep/core/host_list.h"
#include "libstep/core/task_counts.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace dist_train {

Result<RankMap> deal_ranks(const std::vector<std::string>& hosts,
                           const std::vector<std::uint32_t>& counts, Distribution distribution,
                           std::uint32_t plane_size) {
  if (hosts.size() != counts.size())
    return Error{"the step has " + std::to_string(hosts.size()) + " nodes but " +
                     std::to_string(counts.size()) + " task counts",
                 "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE contradict each other; do "
                 "not set them yourself"};
  auto left = counts;
  std::uint64_t remaining = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (remaining == 0 || remaining > kMaxTasks)
    return Error{"a step of " + std::to_string(remaining) + " tasks",
                 "SLURM_STEP_TASKS_PER_NODE is wrong; do not set it yourself"};
  std::uint32_t turn = distribution == Distribution::kBlock    ? kMaxTasks
                       : distribution == Distribution::kCyclic ? 1
                                                               : std::max(1u, plane_size);
  std::vector<NodeRanks> nodes(hosts.size());
  std::vector<std::size_t> open(
      hosts.size()); // hosts that get more: one may have far more than all
  std::iota(open.begin(), open.end(), std::size_t{0});
  for (std::uint32_t rank = 0; remaining > 0;) {
    for (auto i : open) {
      auto take = std::min(turn, left[i]);
      for (std::uint32_t k = 0; k < take; ++k)
        nodes[i].ranks.push_back(rank++);
      left[i] -= take;
      remaining -= take;
    }
    std::erase_if(open, [&](std::size_t i) { return left[i] == 0; });
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    nodes[i].name = hosts[i];
  std::erase_if(nodes, [](const NodeRanks& node) { return node.ranks.empty(); });
  return make_rank_map(std::move(nodes));
}

Result<RankMap> make_rank_map(std::vector<NodeRanks> nodes) {
  std::uint64_t total = 0;
  std::set<std::string_view> names;
  for (const auto& node : nodes) {
    total += node.ranks.size();
    if (!is_host_name(node.name))
      return Error{"not a node name in a layout: " + quoted(node.name),
                   "names have letters, digits, dots, dashes and underscores"};
    if (node.ranks.empty())
      return Error{"node " + quoted(node.name) + " has no rank", "leave it out of the layout"};
    if (!names.insert(node.name).second)
      return Error{"node " + quoted(node.name) + " is named twice in the layout",
                   "name each node once, with all its ranks"};
  }
  if (total == 0 || total > kMaxTasks)
    return Error{"a layout of " + std::to_string(total) + " ranks",
                 "between 1 and " + std::to_string(kMaxTasks) + " are possible"};
  std::vector<bool> seen(total, false);
  for (const auto& node : nodes) {
    for (auto rank : node.ranks) {
      if (rank >= total || seen[rank])
        return Error{"rank " + std::to_string(rank) + " on node " + quoted(node.name) +
                         (rank < total ? " is there twice" : " is beyond the world of ") +
                         (rank < total ? "" : std::to_string(total)),
                     "the ranks of a layout are 0 to N-1, each once"};
      seen[rank] = true;
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const NodeRanks& a, const NodeRanks& b) {
    return a.ranks.front() < b.ranks.front();
  });
  return RankMap{std::move(nodes)};
}

std::string layout_text(const RankMap& map) {
  std::string text;
  for (const auto& node : map.nodes) {
    if (!text.empty())
      text += ';';
    text += node.name + '=' + id_set_text(node.ranks);
  }
  return text;
}

Result<RankMap> parse_layout(std::string_view text) {
  std::vector<NodeRanks> nodes;
  std::size_t total = 0;
  for (auto part : split(text, ';')) {
    auto equals = part.find('=');
    if (equals == part.npos)
      return Error{"not a layout: " + quoted(text) + " (at " + quoted(part) + ")",
                   "a layout looks like node01=0-3;node02=4"};
    auto ranks = parse_id_set(part.substr(equals + 1));
    if (!ranks)
      return ranks.error();
    if ((total += ranks->size()) > kMaxTasks || nodes.size() >= kMaxHosts)
      return Error{"a layout of more than " + std::to_string(kMaxTasks) + " ranks",
                   "no step is that large"};
    nodes.push_back({std::string(part.substr(0, equals)), *std::move(ranks)});
  }
  return make_rank_map(std::move(nodes));
}

std::uint32_t world_size(const RankMap& map) {
  std::size_t size = 0;
  for (const auto& node : map.nodes)
    size += node.ranks.size();
  return static_cast<std::uint32_t>(size);
}

std::uint32_t node_rank_of(const RankMap& map, std::uint32_t rank) {
  std::uint32_t index = 0;
  while (!std::binary_search(map.nodes[index].ranks.begin(), map.nodes[index].ranks.end(), rank))
    ++index;
  return index;
}

} // namespace dist_train
