// SPDX-License-Identifier: BSD-3-Clause
#include "spank/node_machine.h"

#include "libstep/core/devices.h"
#include "libstep/core/machine_text.h"
#include "libstep/core/text.h"
#include "libstep/core/visible_gpus.h"
#include "libstep/os/affinity.h"
#include "libstep/os/in_child.h"
#include "libstep/os/limits.h"
#include "libstep/os/machine.h"
#include "libstep/os/machine_sysfs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <grp.h>
#include <unistd.h>

namespace dist_train {

namespace {

constexpr unsigned kReadSeconds = 5;

// The site's path with the node's name. Slurm tells its own only later; a node is called as its
// host, without the domain, unless slurm.conf says NodeHostname=.
std::string topology_path(std::string path) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name(host.data());
  name.resize(std::min(name.find('.'), name.size()));
  for (std::size_t at = 0; (at = path.find("%n", at)) != path.npos; at += name.size())
    path.replace(at, 2, name);
  return path;
}

Result<void> drop_rights(const TaskUser& user) {
  if (geteuid() != 0)
    return {};
  if (setgroups(0, nullptr) != 0 || setgid(user.gid) != 0 || setuid(user.uid) != 0)
    return Error{std::string("cannot become the user: ") + std::strerror(errno)};
  return {};
}

// Slurm tells the type of --mem-bind where somebody said it; "none" is a wish, too.
bool memory_is_bound(const Environment& environment) {
  return !value_of(environment, "SLURM_MEM_BIND_TYPE").empty();
}

// Whether the job has every CPU of the node, so that nobody else is in the way.
bool has_all_cpus(const Environment& environment, std::size_t cpus) {
  auto count = parse_number(value_of(environment, "SLURM_CPUS_ON_NODE"), kMaxId);
  return count.value_or(0) >= cpus;
}

} // namespace

bool places(std::string_view options) {
  auto words = split(options, ',');
  return std::none_of(words.begin(), words.end(), [](std::string_view word) {
    return word == "off" || word == "help" || word == "bind=none";
  });
}

Result<std::string> read_node_machine(const std::string& options, const TaskUser& user) {
  return in_child(
      [&]() -> Result<std::string> {
        if (auto dropped = drop_rights(user); !dropped)
          return dropped.error();
        auto said = parse_options(options, OptionSource::kResolved);
        if (!said)
          return said.error();
        auto machine =
            said->topology ? read_machine(topology_path(*said->topology)) : read_machine_cache();
        if (!machine && !said->topology)
          machine = read_this_machine();
        if (!machine)
          return machine.error();
        return machine_text(*machine);
      },
      kReadSeconds);
}

namespace {

TaskView view_of(const Machine& machine, const Options& options, const SlurmFacts& facts,
                 const TaskDevices& devices) {
  TaskView view;
  view.local_rank = facts.local_rank;
  view.local_tasks = static_cast<std::uint32_t>(facts.node_ranks.size());
  view.bind = options.bind.value_or(BindRule::kAuto);
  view.mask = allowed_cpus();
  view.reach = reachable_cpus();
  view.masks = bound_masks(facts.environment, view.local_tasks);
  if (!view.masks.empty() && view.masks[view.local_rank] != view.mask)
    view.masks.clear();
  view.whole_node = has_all_cpus(facts.environment, all_cpus(machine).size());
  if (!memory_is_bound(facts.environment))
    view.memory = allowed_memory();
  view.gpus = named_gpus(machine, devices.names, accessible_gpus(machine, ""));
  view.gpus_isolated = devices.isolated;
  view.gpus_movable = facts.environment.contains("SLURM_GPUS_ON_NODE");
  view.gpu_rule = options.gpus.value_or(GpuRule::kShared);
  view.barred_nics = barred_nics(machine, options.nic.value_or("auto"));
  return view;
}

// What of the user's own undoes the binding.
void warn_of_variables(const SlurmFacts& facts, TaskShare& share) {
  if (value_of(facts.environment, "NCCL_IGNORE_CPU_AFFINITY") == "1")
    share.warnings.push_back(
        "NCCL_IGNORE_CPU_AFFINITY=1 lets NCCL's threads leave the task's CPUs; "
        "fix: unset it");
  if (auto file = value_of(facts.environment, "NCCL_TOPO_FILE"); !file.empty())
    share.warnings.push_back("NCCL takes the machine from NCCL_TOPO_FILE=" + quoted(file) +
                             ", which may contradict it; fix: unset it on bare metal");
}

Result<TaskShare> share_on(const Machine& machine, const Options& options, const SlurmFacts& facts,
                           const TaskDevices& devices) {
  auto view = view_of(machine, options, facts, devices);
  if (view.mask.empty() || view.reach.empty())
    return Error{"the task's CPUs cannot be read"};
  if (intersection(view.reach, all_cpus(machine)) != view.reach)
    return Error{"it describes CPUs " + id_set_text(all_cpus(machine)) + ", the task may use " +
                 id_set_text(view.reach)};
  auto share = share_of_task(machine, view);
  if (!share.cpus.empty() && share.cpus != view.mask)
    if (auto bound = bind_to_cpus(share.cpus); !bound) {
      share.warnings.push_back(bound.error().message);
      share.cells.cores = id_set_text(view.mask) + " kept";
      share.cores = 0;
    }
  if (!share.memory.empty())
    if (auto preferred = prefer_memory_of(share.memory); !preferred)
      share.warnings.push_back(preferred.error().message);
  warn_of_variables(facts, share);
  return share;
}

} // namespace

TaskShare take_share(const Result<std::string>& text, const Options& options,
                     const SlurmFacts& facts, const TaskDevices& devices) {
  auto source = options.topology.value_or("the machine");
  auto machine = text ? parse_machine_text(*text, source) : Result<Machine>(text.error());
  auto share =
      machine ? share_on(*machine, options, facts, devices) : Result<TaskShare>(machine.error());
  if (share)
    return *std::move(share);
  TaskShare none;
  none.warnings.push_back("nothing is placed: " + share.error().message +
                          (machine && options.topology ? " (" + source + ")" : ""));
  return none;
}

} // namespace dist_train
