// SPDX-License-Identifier: BSD-3-Clause
#include "spank/node_facts.h"

#include "spank/names.h"

#include "libstep/core/text.h"
#include "libstep/os/limits.h"

namespace dist_train {

namespace {

// The soft limit that the program will have: after this hook slurmstepd sets again what srun
// handed on ("U" before the number where the user named the limit), where the hard one allows it.
std::uint64_t program_limit(const SlurmFacts& facts, std::string_view name, const Limit& now) {
  auto text = value_of(facts.environment, name);
  if (text.starts_with('U'))
    text.remove_prefix(1);
  auto handed_on = parse_number(text, kUnlimited);
  return handed_on && *handed_on <= now.hard ? *handed_on : now.soft;
}

} // namespace

NodeFacts gather_node_facts(const SlurmFacts& facts, const TaskDevices& devices, const IdSet& cpus,
                            std::uint32_t cores) {
  NodeFacts node;
  node.node = facts.node_name;
  node.plugin_version = kPluginVersion;
  node.local_ranks = static_cast<std::uint32_t>(facts.node_ranks.size());
  node.gpus = devices.count;
  node.gpus_isolated = devices.isolated;
  node.hcas = rdma_devices();
  auto files = open_files_limit();
  node.open_files = program_limit(facts, "SLURM_RLIMIT_NOFILE", files);
  node.open_files_hard = files.hard;
  node.locked_memory = program_limit(facts, "SLURM_RLIMIT_MEMLOCK", locked_memory_limit());
  node.shared_memory = filesystem_size("/dev/shm");
  node.task_cores = cores;
  node.task_cpus = static_cast<std::uint32_t>(cpus.size());
  node.cpus_per_task = static_cast<std::uint32_t>(
      parse_number(value_of(facts.environment, "SLURM_CPUS_PER_TASK"), 0xffffffff).value_or(0));
  return node;
}

} // namespace dist_train
