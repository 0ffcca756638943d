// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/mode_checks.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

// One line that says what there is and what to do.
Error refusal(Mode mode, const std::string& why, const std::string& instead) {
  return Error{std::string("mode ") + to_text(mode) + ' ' + why + "; " + instead, ""};
}

Error too_many_tasks(Mode mode, const std::string& seen) {
  return refusal(mode, "wants one task a node, not " + seen, "give srun --ntasks-per-node=1");
}

Error uneven(const std::string& seen) {
  return refusal(Mode::kLightning, "wants equally many tasks on each node, not " + seen,
                 "give srun --ntasks-per-node=N");
}

// Tensor-parallel groups are neighbouring ranks, in Megatron's every order of its dimensions.
std::optional<Error> torn_group(const RankMap& layout, std::uint32_t size,
                                std::string_view option) {
  auto world = world_size(layout);
  if (size > 1 && world % size != 0)
    return refusal(Mode::kMegatron,
                   "wants a number of tasks that " + std::string(option) + ' ' +
                       std::to_string(size) + " divides, not " + std::to_string(world),
                   "give srun another -n");
  for (const auto& node : layout.nodes)
    for (std::size_t i = 0; size > 1 && i < node.ranks.size(); ++i) {
      const auto rank = node.ranks[i];
      if (rank % size != 0 && (i == 0 || node.ranks[i - 1] != rank - 1))
        return refusal(Mode::kMegatron,
                       "wants each tensor-parallel group on one node, and with " +
                           std::string(option) + ' ' + std::to_string(size) + " rank " +
                           std::to_string(rank - 1) + " is on " +
                           layout.nodes[node_rank_of(layout, rank - 1)].name + ", rank " +
                           std::to_string(rank) + " on " + node.name,
                       "make the tasks of each node a multiple of it, in a block layout "
                       "(--distribution=block)");
    }
  return std::nullopt;
}

// Of a node with several tasks.
std::optional<Error> refused_gpus(const Options& options) {
  auto mode = options.mode.value_or(Mode::kOff);
  if (!takes_gpu_at_local_rank(mode) || options.gpus != GpuRule::kOwn)
    return std::nullopt;
  return refusal(mode,
                 "takes the GPU at the position LOCAL_RANK, and with gpus=own a task sees its own "
                 "only",
                 "leave gpus=own away");
}

std::optional<Error> torn_node(const RankMap& layout) {
  for (const auto& node : layout.nodes)
    if (node.ranks.back() - node.ranks.front() + 1 != node.ranks.size())
      return refusal(Mode::kMegatron,
                     "wants neighbouring ranks on one node, and " + node.name + " has ranks " +
                         id_set_text(node.ranks),
                     "give srun --distribution=block, or say --tensor-model-parallel-size in its "
                     "command line where that is 1");
  return std::nullopt;
}

std::optional<Error> refused_by_megatron(const RankMap& layout,
                                         const std::vector<std::string>& command) {
  std::uint32_t tensor = 0;
  for (std::string_view option :
       {"--tensor-model-parallel-size", "--expert-tensor-parallel-size"}) {
    auto size = number_argument(command, option);
    if (auto torn = torn_group(layout, size, option))
      return torn;
    tensor = std::max(tensor, size);
  }
  return tensor == 0 ? torn_node(layout) : std::nullopt;
}

} // namespace

bool takes_gpu_at_local_rank(Mode mode) {
  return mode == Mode::kLightning || mode == Mode::kDeepspeed || mode == Mode::kMegatron;
}

bool checks_layout(Mode mode) { return launches_ranks(mode) || takes_gpu_at_local_rank(mode); }

std::optional<Error> refused_launch(const Options& options, const LaunchFacts& launch) {
  auto mode = options.mode.value_or(Mode::kOff);
  if (launch.nodes == 0 || launch.tasks == 0)
    return std::nullopt;
  auto seen = counted(launch.tasks, "task") + " on " + counted(launch.nodes, "node");
  bool several = launch.tasks > launch.nodes;
  if (several && launches_ranks(mode))
    return too_many_tasks(mode, seen);
  if (mode == Mode::kLightning && several && launch.tasks % launch.nodes != 0)
    return uneven(seen);
  return several ? refused_gpus(options) : std::nullopt;
}

std::optional<Error> refused_layout(const Options& options, const RankMap& layout,
                                    const std::vector<std::string>& command) {
  auto mode = options.mode.value_or(Mode::kOff);
  auto tasks = [](const NodeRanks& node) {
    return counted(node.ranks.size(), "task") + " on " + node.name;
  };
  const auto& first = layout.nodes.front();
  for (const auto& node : layout.nodes) {
    if (launches_ranks(mode) && node.ranks.size() > 1)
      return too_many_tasks(mode, tasks(node));
    if (auto refused = refused_gpus(options); refused && node.ranks.size() > 1)
      return refused;
    if (mode == Mode::kLightning && node.ranks.size() != first.ranks.size())
      return uneven(tasks(first) + " and " + std::to_string(node.ranks.size()) + " on " +
                    node.name);
  }
  return mode == Mode::kMegatron ? refused_by_megatron(layout, command) : std::nullopt;
}

} // namespace dist_train
