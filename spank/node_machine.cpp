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

const std::string* variable(const SlurmFacts& facts, std::string_view name) {
  auto found = facts.environment.find(name);
  return found == facts.environment.end() ? nullptr : &found->second;
}

// Slurm tells the type of --mem-bind where somebody said it; "none" is a wish, too.
bool memory_is_bound(const SlurmFacts& facts) {
  const auto* type = variable(facts, "SLURM_MEM_BIND_TYPE");
  return type && !type->empty();
}

// Whether the job has every CPU of the node, so that nobody else is in the way.
bool whole_node(const SlurmFacts& facts, std::size_t cpus) {
  const auto* count = variable(facts, "SLURM_CPUS_ON_NODE");
  return count && parse_number(*count, 1u << 20).value_or(0) >= cpus;
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

TaskShare share_on(const Machine& machine, const Options& options, const SlurmFacts& facts) {
  TaskView view;
  view.local_rank = facts.local_rank;
  view.local_tasks = static_cast<std::uint32_t>(facts.node_ranks.size());
  view.bind = options.bind.value_or(BindRule::kAuto);
  view.mask = allowed_cpus();
  view.reach = reachable_cpus();
  view.whole_node = whole_node(facts, all_cpus(machine).size());
  view.bind_memory = !memory_is_bound(facts);
  auto devices = task_devices(facts.environment, view.local_tasks, gpu_vendor());
  view.gpus_isolated = devices.isolated;
  std::string list;
  for (const auto& name : devices.names)
    list += (list.empty() ? "" : ",") + name;
  for (const auto& visible : visible_gpus(machine, list, accessible_gpus(machine, "")))
    view.gpus.push_back(visible.gpu);

  auto share = share_of_task(machine, view);
  if (!share.cpus.empty() && share.cpus != view.mask)
    if (auto bound = bind_to_cpus(share.cpus); !bound) {
      share.warnings.push_back(bound.error().message);
      share.cells.cores = id_set_text(view.mask) + " kept";
    }
  if (!share.memory.empty())
    if (auto preferred = prefer_memory_of(share.memory); !preferred)
      share.warnings.push_back(preferred.error().message);
  return share;
}

} // namespace

TaskShare take_share(const Result<std::string>& text, const Options& options,
                     const SlurmFacts& facts) {
  auto machine = text ? parse_machine_text(*text, "the machine") : Result<Machine>(text.error());
  if (machine)
    return share_on(*machine, options, facts);
  TaskShare share;
  share.warnings.push_back("nothing is placed: " + machine.error().message);
  return share;
}

} // namespace dist_train
