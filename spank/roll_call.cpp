// SPDX-License-Identifier: BSD-3-Clause
#include "spank/roll_call.h"

#include "libstep/core/host_list.h"
#include "libstep/core/task_counts.h"
#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::size_t kMostFailures = 8; // what a person reads

}

Answer RollCall::take(const Report& report) {
  note(report);
  return answer(report);
}

void RollCall::note(const Report& report) {
  if (world_ == 0 && report.world_size <= kMaxTasks) {
    world_ = report.world_size;
    id_ = report.id;
  }
  if (report.failure) {
    failed_ = failed_ || report.row.rank == 0;
    if (failures_.size() < kMostFailures && reasons_.insert(report.failure->message).second)
      failures_.push_back(said_by(report.row, *report.failure));
  }
  if (report.world_size != world_ || report.row.rank >= world_) {
    contradict(rank_text(report.row) + " says that the world is " +
               std::to_string(report.world_size) + ", others say " + std::to_string(world_));
    return;
  }
  if (expected_ == 0 && !report.node_list.empty())
    if (auto hosts = expand_host_list(report.node_list)) {
      missing_ = *std::move(hosts);
      expected_ = missing_.size();
      std::erase_if(missing_, [&](const auto& name) { return nodes_.contains(name); });
    }
  // After a contradiction nothing is learned any more, whatever is still to come.
  auto ranks = parse_id_set(report.node_ranks);
  if (ranks && !contradiction_ && !nodes_.contains(report.row.node)) {
    ranks_here_ += ranks->size();
    nodes_[report.row.node] = *std::move(ranks);
    std::erase(missing_, report.row.node);
  }
  if (report.facts && nodes_.contains(report.row.node))
    facts_.insert_or_assign(report.row.node, *report.facts);
  if (report.has_row)
    rows_[report.row.rank] = report.row;
  if (report.master && report.row.rank == 0)
    master_ = report.master;
  if (map_ || contradiction_ || ranks_here_ < world_)
    return;
  std::vector<NodeRanks> nodes;
  for (const auto& [name, here] : nodes_)
    nodes.push_back({name, here});
  auto map = make_rank_map(std::move(nodes));
  if (map && dist_train::world_size(*map) == world_) {
    map_ = *std::move(map);
    layout_ = layout_text(*map_);
    layout_digest_ = sha256(layout_);
  } else {
    contradict("the nodes contradict each other: " +
               (map ? "they have " + std::to_string(ranks_here_) + " ranks, the world " +
                          std::to_string(world_)
                    : map.error().message));
  }
}

void RollCall::contradict(std::string how) {
  if (!contradiction_)
    failures_.push_back({std::move(how)});
  failed_ = contradiction_ = true;
}

Answer RollCall::answer(const Report& report) {
  Answer answer;
  if (failed_) {
    answer.status = Status::kFailed;
    return answer;
  }
  if (report.want == Want::kNothing) {
    answer.status = Status::kReady;
    return answer;
  }
  bool ready = master_ && (report.want == Want::kMaster || map_);
  if (!ready) {
    answer.status = Status::kPending;
    answer.note = listing(missing_);
    return answer;
  }
  answer.status = Status::kReady;
  answer.master = *master_;
  if (report.want == Want::kLayout) {
    answer.node_count = static_cast<std::uint32_t>(map_->nodes.size());
    answer.node_rank = node_rank_of(*map_, report.row.rank);
    answer.layout = layout_;
    answer.layout_digest = layout_digest_;
  }
  return answer;
}

std::size_t RollCall::node_count() const { return std::max(expected_, nodes_.size()); }

std::vector<NodeFacts> RollCall::facts() const {
  std::vector<NodeFacts> all;
  for (const auto& [name, facts] : facts_)
    all.push_back(facts);
  return all;
}

std::vector<MappingRow> RollCall::rows() const {
  std::vector<MappingRow> rows;
  for (const auto& [rank, row] : rows_)
    rows.push_back(row);
  return rows;
}

} // namespace dist_train
