// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/findings.h"

#include "libstep/core/text.h"

#include <algorithm>

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

// Names of the nodes of which something is true.
template <typename Test>
std::vector<std::string> names_where(const Nodes& nodes, Test test) {
  std::vector<std::string> names;
  for (const auto& node : nodes)
    if (test(node))
      names.push_back(node.node);
  return names;
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

void check_gpu_counts(const Nodes& nodes, Found& found) {
  auto short_of = names_where(nodes, [](const NodeFacts& node) {
    return !node.gpus_isolated && node.gpus > 0 && node.gpus < node.local_ranks;
  });
  auto groups = groups_by(nodes, [](const NodeFacts& node) { return std::to_string(node.gpus); });
  if (groups.size() > 1 && !gpus_follow_tasks(nodes)) {
    found.push_back(
        {difference(groups, "sees", " GPUs") +
             (short_of.empty() ? "" : "; too few for the tasks of " + listing(short_of)),
         "`scontrol show node` tells what a node lost; --exclude leaves it out, and "
         "--ntasks-per-node as many tasks as it has GPUs",
         !short_of.empty()});
  } else if (!short_of.empty()) {
    const auto& node = *std::find_if(nodes.begin(), nodes.end(), [&](const NodeFacts& facts) {
      return facts.node == short_of.front();
    });
    found.push_back({count_text(node.local_ranks, "task") + " share " +
                         count_text(node.gpus, "GPU") + " on " + listing(short_of) +
                         ": NCCL refuses two ranks on one GPU (\"Duplicate GPU\")",
                     "ask for as many tasks as GPUs, or more GPUs (--gpus-per-node=" +
                         std::to_string(node.local_ranks) + ')'});
  }
}

void check_isolation(const Nodes& nodes, Found& found) {
  auto names = names_where(nodes, [](const NodeFacts& node) { return node.gpus_isolated; });
  if (!names.empty())
    found.push_back({"each task on " + listing(names) +
                         " sees its own GPU only: set_device(LOCAL_RANK) fails in all but the "
                         "first, and NCCL may lose NVLink between them",
                     "instead of --gpus-per-task or --ntasks-per-gpu ask with --gpus-per-node=N or "
                     "--gpus=N, and --gpu-bind=none; from Slurm 23.11 on "
                     "--gres-flags=allow-task-sharing does as well"});
}

void check_hcas(const Nodes& nodes, Found& found) {
  auto groups = groups_by(nodes, [](const NodeFacts& node) {
    auto names = node.hcas.empty() ? std::string("none") : node.hcas;
    std::replace(names.begin(), names.end(), ',', ' ');
    return names;
  });
  if (groups.size() > 1)
    found.push_back({"RDMA devices differ: " + difference(groups, "has", ""),
                     "look for a link that is down (ibstat); one NCCL_IB_HCA for all nodes cannot "
                     "be right, leave it unset"});
}

void check_versions(Nodes nodes, std::string_view srun, Found& found) {
  nodes.emplace_back();
  nodes.back().node = "srun's host";
  nodes.back().plugin_version = srun;
  std::erase_if(nodes, [](const NodeFacts& node) { return node.plugin_version.empty(); });
  auto groups = groups_by(nodes, [](const NodeFacts& node) { return node.plugin_version; });
  if (groups.size() > 1)
    found.push_back(
        {"plugin versions differ: " + difference(groups, "has", ""),
         "a release works with the one before it; install one everywhere when you can"});
}

void check_open_files(const Nodes& nodes, std::uint32_t world_size, Found& found) {
  const auto needed = kFilesPerRank * world_size;
  auto short_of = [&](const NodeFacts& node) {
    return node.open_files > 0 && node.open_files < needed;
  };
  auto names = names_where(nodes, short_of);
  if (names.empty())
    return;
  auto soft = kUnlimited, hard = kUnlimited;
  for (const auto& node : nodes)
    if (short_of(node)) {
      soft = std::min(soft, node.open_files);
      hard = std::min(hard, std::max(node.open_files_hard, node.open_files));
    }
  auto admin = "LimitNOFILE= in slurmd's unit raises it (and in slurm.conf "
               "PropagateResourceLimitsExcept=NOFILE, for Slurm passes on the submitting shell's)";
  auto limit = "the hard limit is " + std::to_string(hard);
  found.push_back({"a task may open " + std::to_string(soft) + " files on " + listing(names) +
                       "; " + count_text(world_size, "rank") + " may need " +
                       std::to_string(needed) + " (\"Too many open files\")",
                   hard >= needed ? "--dist-train=limits=raise raises that to the hard limit, " +
                                        (hard == kUnlimited ? "unlimited" : std::to_string(hard))
                   : hard > soft
                       ? "--dist-train=limits=raise is not enough, " + limit + "; " + admin
                       : limit + " too; " + admin});
}

void check_locked_memory(const Nodes& nodes, Found& found) {
  auto limited = [](const NodeFacts& node) {
    return !node.hcas.empty() && node.locked_memory > 0 && node.locked_memory < kEnoughLockedMemory;
  };
  auto names = names_where(nodes, limited);
  if (names.empty())
    return;
  auto lowest = kUnlimited;
  for (const auto& node : nodes)
    if (limited(node))
      lowest = std::min(lowest, node.locked_memory);
  found.push_back({"a task may lock " + size_text(lowest) + " of memory on " + listing(names) +
                       ", where there are RDMA devices: registering buffers will fail (ibv_reg_mr, "
                       "ibv_create_cq: \"Cannot allocate memory\")",
                   "LimitMEMLOCK=infinity in slurmd's unit, and in slurm.conf "
                   "PropagateResourceLimitsExcept=MEMLOCK (Slurm passes on the submitting shell's "
                   "limit; `ulimit -l` shows it)"});
}

void check_shared_memory(const Nodes& nodes, Found& found) {
  auto small = [](const NodeFacts& node) {
    return node.shared_memory > 0 && node.shared_memory < kSharedMemoryPerRank * node.local_ranks;
  };
  auto names = names_where(nodes, small);
  if (names.empty())
    return;
  const auto& node = *std::find_if(nodes.begin(), nodes.end(), small);
  auto needed = size_text(kSharedMemoryPerRank * node.local_ranks);
  found.push_back({"/dev/shm holds " + size_text(node.shared_memory) + " on " + listing(names) +
                       "; " + count_text(node.local_ranks, "task") + " may need " + needed +
                       " (\"Bus error\" in NCCL or a data loader)",
                   "as root on the node: mount -o remount,size=50% /dev/shm"});
}

// CPUs the job asked for that its step did not get.
bool lacks_cpus(const NodeFacts& node) {
  return node.task_cpus > 0 && node.task_cpus < node.cpus_per_task;
}

void check_cpus_per_task(const Nodes& nodes, Found& found) {
  auto names = names_where(nodes, lacks_cpus);
  if (names.empty())
    return;
  const auto& node = *std::find_if(nodes.begin(), nodes.end(), lacks_cpus);
  auto asked = std::to_string(node.cpus_per_task);
  found.push_back({"the job asked for " + asked + " CPUs a task (SLURM_CPUS_PER_TASK), a task on " +
                       listing(names) + " has " + std::to_string(node.task_cpus),
                   "srun -c " + asked + ", or export SRUN_CPUS_PER_TASK=" + asked +
                       ": Slurm 22.05 to 23.02 does not hand --cpus-per-task on to srun; unset "
                       "SLURM_CPUS_PER_TASK where it is left from another job"});
}

void check_cores(const Nodes& nodes, Found& found) {
  auto starved = [](const NodeFacts& node) {
    auto gpus = node.gpus_isolated ? node.gpus : node.gpus / std::max(1u, node.local_ranks);
    return node.gpus > 0 && node.task_cores > 0 && !lacks_cpus(node) &&
           node.task_cores < kCoresPerGpu * std::max(1u, gpus);
  };
  auto names = names_where(nodes, starved);
  if (names.empty())
    return;
  const auto& node = *std::find_if(nodes.begin(), nodes.end(), starved);
  found.push_back({"a task on " + listing(names) + " has " + count_text(node.task_cores, "core") +
                       " for its GPU: data loader and NCCL will keep it waiting",
                   "ask for more: srun -c N (at least 2 a GPU)"});
}

} // namespace

std::vector<Finding> findings(const std::vector<NodeFacts>& nodes, std::uint32_t world_size,
                              std::string_view srun_plugin_version) {
  Found found;
  if (nodes.empty())
    return found;
  check_gpu_counts(nodes, found);
  check_isolation(nodes, found);
  check_hcas(nodes, found);
  check_versions(nodes, srun_plugin_version, found);
  check_open_files(nodes, world_size, found);
  check_locked_memory(nodes, found);
  check_shared_memory(nodes, found);
  check_cpus_per_task(nodes, found);
  check_cores(nodes, found);
  return found;
}

} // namespace dist_train
