// SPDX-License-Identifier: BSD-3-Clause
// srun's memory of a step's reports, and the answers to them. Pure: no sockets, no clock.
#pragma once

#include "libstep/core/rank_map.h"
#include "spank/broker_messages.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dist_train {

class RollCall {
public:
  // Notes the report and answers it. A task may ask again and again.
  Answer take(const Report& report);

  // Every node has reported (a task of each at least).
  bool all_nodes_here() const { return world_ != 0 && ranks_here_ == world_; }
  // ... and said what it has (earlier versions of the plugin do not).
  bool all_facts_here() const { return all_nodes_here() && facts_.size() == nodes_.size(); }
  // A contradiction, or rank 0 cannot start: the tasks are told to end.
  bool failed() const { return failed_; }
  // Why, each reason once and with the rank that gave it first; the first kMostFailures.
  const std::vector<Error>& failures() const { return failures_; }
  // Every rank's row is there.
  bool all_rows_here() const { return world_ != 0 && rows_.size() == world_; }

  const StepId& id() const { return id_; } // as the nodes know it
  std::uint32_t world_size() const { return world_; }
  std::size_t nodes_here() const { return nodes_.size(); }
  // Names of nodes that have not reported, as far as the step's node list is known.
  const std::vector<std::string>& missing_nodes() const { return missing_; }
  std::size_t node_count() const; // 0 if not known

  // By node name.
  std::vector<NodeFacts> facts() const;
  // Rows as they came, by rank, and where rank 0 is.
  std::vector<MappingRow> rows() const;
  const std::optional<Master>& master() const { return master_; }

private:
  void note(const Report& report);
  void contradict(std::string how);
  Answer answer(const Report& report);

  StepId id_;
  std::uint32_t world_ = 0;
  std::size_t ranks_here_ = 0;
  std::map<std::string, IdSet> nodes_;
  std::size_t expected_ = 0;         // nodes of the step's list
  std::vector<std::string> missing_; // of them
  std::map<std::string, NodeFacts> facts_;
  std::map<std::uint32_t, MappingRow> rows_;
  std::optional<Master> master_;
  std::optional<RankMap> map_;
  std::string layout_;
  Digest layout_digest_{};
  bool failed_ = false, contradiction_ = false;
  std::vector<Error> failures_;
  std::set<std::string> reasons_; // those of failures_, without the rank
};

} // namespace dist_train
