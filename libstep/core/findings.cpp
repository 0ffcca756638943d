// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/findings.h"

#include "libstep/core/mode_checks.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <iterator>

namespace dist_train {

namespace {

using Nodes = std::vector<NodeFacts>;
using Found = std::vector<Finding>;

constexpr std::uint64_t kMiB = 1u << 20;
// NCCL and Gloo open sockets to every peer and a few dozen files more for each.
constexpr std::uint64_t kFilesPerRank = 64;
// What a local rank may need in /dev/shm for NCCL's rings and the queues of a data loader.
constexpr std::uint64_t kSharedMemoryPerRank = 64 * kMiB;
// More than any rank registers: a limit above is as good as none.
constexpr std::uint64_t kEnoughLockedMemory = 16 * 1024 * kMiB;
constexpr std::uint32_t kCoresPerGpu = 2;
constexpr std::size_t kMaxValues = 4; // of nodes that differ, in one line

std::string count_text(std::uint64_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1024 * kMiB && bytes % (1024 * kMiB) == 0)
    return std::to_string(bytes / (1024 * kMiB)) + " GiB";
  return bytes >= kMiB ? std::to_string(bytes / kMiB) + " MiB"
                       : std::to_string(bytes / 1024) + " KiB";
}

// The nodes of which something is true.
template <typename Test>
Nodes those_where(const Nodes& nodes, Test test) {
  Nodes those;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(those), test);
  return those;
}

std::string names_of(const Nodes& nodes) {
  std::vector<std::string> names;
  for (const auto& node : nodes)
    names.push_back(node.node);
  return listing(names);
}

// Nodes that agree on a value.
struct Group {
  std::string value; // as the line shows it
  std::vector<std::string> names;
};

// The most frequent value last; otherwise as the nodes come.
template <typename Value>
std::vector<Group> groups_by(const Nodes& nodes, Value value_of) {
  std::vector<Group> groups;
  for (const auto& node : nodes) {
    auto value = value_of(node);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& group) { return group.value == value; });
    if (found == groups.end())
      found = groups.insert(groups.end(), {std::move(value), {}});
    found->names.push_back(node.node);
  }
  auto fewer = [](const Group& a, const Group& b) { return a.names.size() < b.names.size(); };
  // The first of the most frequent ones, moved to the end.
  if (auto most = std::max_element(groups.begin(), groups.end(), fewer); most != groups.end())
    std::rotate(most, most + 1, groups.end());
  return groups;
}

// "gpu03 sees 7 GPUs, gpu04 6, the others 8".
std::string difference(const std::vector<Group>& groups, const char* verb, const char* noun) {
  auto shown = std::min(groups.size() - 1, kMaxValues);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& group = groups[i];
    text += (i == 0 ? "" : ", ") + listing(group.names) + ' ';
    text += i == 0 ? verb + (' ' + group.value) + noun : group.value;
  }
  if (shown < groups.size() - 1)
    text += ", " + count_text(groups.size() - 1 - shown, "more value");
  const auto& last = groups.back();
  return text + ", " + (last.names.size() > 1 ? "the others" : last.names.front()) + ' ' +
         last.value;
}

// Nodes with other numbers of GPUs are meant where their tasks follow.
bool gpus_follow_tasks(const Nodes& nodes) {
  const auto& first = nodes.front();
  return std::all_of(nodes.begin(), nodes.end(), [&](const NodeFacts& node) {
    return std::uint64_t{node.gpus} * first.local_ranks ==
           std::uint64_t{first.gpus} * node.local_ranks;
  });
}

void check_gpu_counts(const Nodes& nodes, bool oversubscribe, Mode mode, Found& found) {
  const bool certain = takes_gpu_at_local_rank(mode); // there is none at that position
  auto few = those_where(nodes, [&](const NodeFacts& node) {
    return (certain || !oversubscribe) && !node.gpus_isolated && node.gpus > 0 &&
           node.gpus < node.local_ranks;
  });
  auto groups = groups_by(nodes, [](const NodeFacts& node) { return std::to_string(node.gpus); });
  if (groups.size() > 1 && !gpus_follow_tasks(nodes)) {
    found.push_back({difference(groups, "sees", groups.front().value == "1" ? " GPU" : " GPUs") +
                         (few.empty() ? "" : "; too few for the tasks of " + names_of(few)),
                     "leave the node out (--exclude) or ask for as many tasks as it has GPUs; "
                     "`scontrol show node` tells what it has lost",
                     !few.empty()});
  } else if (!few.empty()) {
    const auto& node = few.front();
    found.push_back({count_text(node.local_ranks, "task") + " share " +
                         count_text(node.gpus, "GPU") + " on " + names_of(few) +
                         (certain ? std::string(", and mode ") + to_text(mode) +
                                        " takes the GPU at LOCAL_RANK, which not all have"
                                  : ", and NCCL refuses two ranks on one (\"Duplicate GPU\")"),
                     "as many tasks as GPUs, --gpus-per-node=" + std::to_string(node.local_ranks) +
                         (certain ? "" : ", or --dist-train=oversubscribe if that is meant"),
                     certain});
  }
}

void check_isolation(const Nodes& nodes, Mode mode, Found& found) {
  auto isolated = those_where(nodes, [](const NodeFacts& node) { return node.gpus_isolated; });
  const bool certain = takes_gpu_at_local_rank(mode);
  const std::string device =
      certain ? std::string("mode ") + to_text(mode) +
                    " takes the GPU at LOCAL_RANK, which fails beyond the first"
      : mode == Mode::kTorch ? "set_device(LOCAL_RANK) fails beyond the first"
                             : "";
  if (!isolated.empty())
    found.push_back({"each task on " + names_of(isolated) +
                         " sees GPUs of its own only: " + device +
                         (device.empty() ? "" : ", and ") + "NCCL may lose NVLink between them",
                     "--gpus-per-node=N or --gpus=N with --gpu-bind=none, instead of "
                     "--gpus-per-task, --ntasks-per-gpu or another --gpu-bind; from Slurm 23.11 on "
                     "--gres-flags=allow-task-sharing will do",
                     certain});
}

void check_hcas(const Nodes& nodes, Found& found) {
  auto groups = groups_by(nodes, [](const NodeFacts& node) {
    auto names = node.hcas.empty() ? std::string("none") : node.hcas;
    std::replace(names.begin(), names.end(), ',', ' ');
    return names;
  });
  if (groups.size() > 1)
    found.push_back({"RDMA devices differ: " + difference(groups, "has", ""),
                     "look for a device that is missing or has another name (ibstat), and leave "
                     "NCCL_IB_HCA unset: no one value is right on all nodes"});
}

void check_versions(Nodes nodes, std::string_view srun, Found& found) {
  nodes.emplace_back();
  nodes.back().node = "srun's host";
  nodes.back().plugin_version = srun;
  std::erase_if(nodes, [](const NodeFacts& node) { return node.plugin_version.empty(); });
  auto groups = groups_by(nodes, [](const NodeFacts& node) { return node.plugin_version; });
  if (groups.size() > 1)
    found.push_back({"plugin versions differ: " + difference(groups, "has", ""),
                     "one version everywhere (a release works with the one before it only)"});
}

void check_open_files(const Nodes& nodes, std::uint32_t world_size, Found& found) {
  const auto needed = kFilesPerRank * world_size;
  auto few = those_where(nodes, [&](const NodeFacts& node) {
    return node.open_files > 0 && node.open_files < needed;
  });
  if (few.empty())
    return;
  auto soft = std::ranges::min(few, {}, &NodeFacts::open_files).open_files;
  auto hard = std::ranges::min(few, {}, &NodeFacts::open_files_hard).open_files_hard;
  const std::string admin =
      "LimitNOFILE= in slurmd's unit, and PropagateResourceLimitsExcept=NOFILE in slurm.conf "
      "(otherwise the submitting shell's limit counts)";
  const auto hard_text = hard == kUnlimited ? "unlimited" : std::to_string(hard);
  found.push_back({"a task may open " + std::to_string(soft) + " files on " + names_of(few) + "; " +
                       count_text(world_size, "rank") + " may need " + std::to_string(needed) +
                       " (\"Too many open files\")",
                   hard >= needed
                       ? "--dist-train=limits=raise (the hard limit is " + hard_text + ')'
                       : admin + ", because the hard limit is " + hard_text + " only"});
}

// One finding for the nodes of which `lacks` is true, in the words for that with the least `amount`
// and for the names of all.
template <typename Test, typename Amount, typename Words>
void check_least(const Nodes& nodes, Test lacks, Amount amount, Words words, Found& found) {
  auto those = those_where(nodes, lacks);
  if (!those.empty())
    found.push_back(words(std::ranges::min(those, {}, amount), names_of(those)));
}

void check_locked_memory(const Nodes& nodes, Found& found) {
  auto lacks = [](const NodeFacts& node) {
    return !node.hcas.empty() && node.locked_memory > 0 && node.locked_memory < kEnoughLockedMemory;
  };
  auto words = [](const NodeFacts& node, const std::string& names) -> Finding {
    return {"a task may lock " + size_text(node.locked_memory) + " of memory on " + names +
                ", and RDMA registers more (ibv_reg_mr, ibv_create_cq: \"Cannot allocate memory\")",
            "LimitMEMLOCK=infinity in slurmd's unit, and PropagateResourceLimitsExcept=MEMLOCK in "
            "slurm.conf (otherwise the submitting shell's limit counts, `ulimit -l`)"};
  };
  check_least(nodes, lacks, &NodeFacts::locked_memory, words, found);
}

void check_shared_memory(const Nodes& nodes, Found& found) {
  auto lacks = [](const NodeFacts& node) {
    return node.shared_memory > 0 && node.shared_memory < kSharedMemoryPerRank * node.local_ranks;
  };
  auto words = [](const NodeFacts& node, const std::string& names) -> Finding {
    return {"/dev/shm holds " + size_text(node.shared_memory) + " on " + names + "; " +
                count_text(node.local_ranks, "task") + " may need " +
                size_text(kSharedMemoryPerRank * node.local_ranks) +
                " (\"Bus error\" in NCCL or a data loader)",
            "mount -o remount,size=50% /dev/shm, as root on the node"};
  };
  check_least(nodes, lacks, &NodeFacts::shared_memory, words, found);
}

// The step did not get the CPUs that the job asked for.
bool lacks_cpus(const NodeFacts& node) {
  return node.task_cpus > 0 && node.task_cpus < node.cpus_per_task;
}

void check_cpus_per_task(const Nodes& nodes, Found& found) {
  auto words = [](const NodeFacts& node, const std::string& names) -> Finding {
    auto asked = std::to_string(node.cpus_per_task);
    return {"SLURM_CPUS_PER_TASK is " + asked + ", but a task on " + names + " may use " +
                count_text(node.task_cpus, "CPU"),
            "srun -c " + asked + " or SRUN_CPUS_PER_TASK=" + asked +
                " (in Slurm 22.05 to 23.02 srun does not inherit --cpus-per-task); unset "
                "SLURM_CPU_BIND and SLURM_CPUS_PER_TASK where another step has left them"};
  };
  check_least(nodes, lacks_cpus, &NodeFacts::task_cpus, words, found);
}

// GPUs of a task; tasks that share one count it as theirs.
std::uint32_t task_gpus(const NodeFacts& node) {
  auto tasks = node.gpus_isolated ? 1 : std::max(1u, node.local_ranks);
  return std::max(1u, node.gpus / tasks);
}

void check_cores(const Nodes& nodes, Found& found) {
  auto lacks = [](const NodeFacts& node) {
    return node.gpus > 0 && node.task_cores > 0 && !lacks_cpus(node) &&
           node.task_cores < kCoresPerGpu * task_gpus(node);
  };
  auto words = [](const NodeFacts& node, const std::string& names) -> Finding {
    return {"a task on " + names + " has " + count_text(node.task_cores, "core") + " for " +
                count_text(task_gpus(node), "GPU") +
                ", which will wait for its data loader and for NCCL's threads",
            "srun -c N, at least 2 cores a GPU"};
  };
  check_least(nodes, lacks, &NodeFacts::task_cores, words, found);
}

// What placement says of single nodes; those that say the same are named together.
void check_placement(const Nodes& nodes, Found& found) {
  constexpr std::size_t kMost = 6;                                    // lines
  std::vector<std::pair<std::string, std::vector<std::string>>> said; // and by whom
  for (const auto& node : nodes)
    for (auto line : split(node.warnings, '\n')) {
      auto same = std::find_if(said.begin(), said.end(),
                               [&](const auto& one) { return one.first == line; });
      if (same == said.end())
        same = said.insert(said.end(), {std::string(line), {}});
      same->second.push_back(node.node);
    }
  for (std::size_t i = 0; i < std::min(said.size(), kMost); ++i)
    found.push_back({listing(said[i].second) + ": " + said[i].first, ""});
  if (said.size() > kMost)
    found.push_back({"and " + std::to_string(said.size() - kMost) + " more of placement", ""});
}

} // namespace

std::vector<Finding> findings(const std::vector<NodeFacts>& nodes, std::uint32_t world_size,
                              std::string_view srun_plugin_version, bool oversubscribe, Mode mode) {
  Found found;
  if (nodes.empty())
    return found;
  check_gpu_counts(nodes, oversubscribe, mode, found);
  check_isolation(nodes, mode, found);
  check_hcas(nodes, found);
  check_versions(nodes, srun_plugin_version, found);
  check_open_files(nodes, world_size, found);
  check_locked_memory(nodes, found);
  check_shared_memory(nodes, found);
  check_cpus_per_task(nodes, found);
  check_cores(nodes, found);
  check_placement(nodes, found);
  return found;
}

} // namespace dist_train
