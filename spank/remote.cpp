// SPDX-License-Identifier: BSD-3-Clause
#include "spank/remote.h"

#include "libstep/core/mode_checks.h"
#include "libstep/core/text.h"
#include "libstep/os/affinity.h"
#include "libstep/os/interfaces.h"
#include "libstep/os/limits.h"
#include "libstep/os/nccl_conf.h"
#include "libstep/os/port.h"
#include "spank/kept_endpoint.h"
#include "spank/meeting.h"
#include "spank/names.h"
#include "spank/node_facts.h"
#include "spank/node_machine.h"
#include "spank/slurm_facts.h"
#include "spank/slurm_log.h"
#include "spank/watchdog.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sys/resource.h>
#include <unistd.h>

namespace dist_train::remote {

namespace {

// Plain bytes: nothing of ours is constructed or freed when Slurm loads and unloads the plugin.
std::array<char, kMaxOptionText + 1> option_text;
bool option_given = false;

// The machine under this task: of its child alone, which ends in exec().
const Result<std::string>* machine = nullptr;

constexpr const char* kSubmittingHost =
    "the plugin may be missing or of another version on the submitting host";

// More than any single wait that is meant: for an answer of srun, or for rank 0 without it.
std::chrono::seconds patience(std::chrono::seconds wait) {
  return 2 * std::min(wait, std::chrono::seconds(30)) + std::chrono::seconds(5);
}

[[noreturn]] void fail(const Error& error) {
  if (!error.message.empty()) {
    log_error(error);
    let_slurm_read();
  }
  _exit(1);
}

// A task that knows itself and its srun.
struct Task {
  BrokerAddress broker;
  Report report;
};

// srun's words come before Slurm's on the task's end; the task's own may come after them.
[[noreturn]] void fail(const Task& task, const Error& error) {
  bool said = !error.message.empty() && report_failure(task.broker, task.report, error);
  fail(said || error.message.empty() ? Error{} : said_by(task.report.row, error));
}

// What is wrong for all tasks of a node is said by its first.
[[noreturn]] void fail_node(spank_t spank, const Error& error) {
  fail(step_variable(spank, "SLURM_LOCALID").value_or("0") == "0" ? error : Error{});
}

Result<BrokerAddress> broker_of(spank_t spank) {
  BrokerAddress broker;
  auto port = read_variable(spank, kBrokerVariable);
  if (!port)
    return port.error();
  if (!*port)
    return Error{"srun did not tell this step where it listens", kSubmittingHost};
  broker.port = static_cast<std::uint16_t>(parse_number(port->value_or(""), 65535).value_or(0));
  for (const char* name : {"SLURM_SRUN_COMM_HOST", "SLURM_LAUNCH_NODE_IPADDR"}) {
    auto host = read_variable(spank, name);
    if (!host)
      return host.error();
    if (!host->value_or("").empty() && (broker.hosts.empty() || broker.hosts.front() != **host))
      broker.hosts.push_back(**std::move(host));
  }
  return broker;
}

// The task's own GPU as Slurm names it.
std::string gpu_of(const TaskDevices& devices, std::uint32_t local_rank, bool oversubscribe) {
  auto own = own_device(devices, local_rank, oversubscribe);
  return own && *own < devices.names.size() ? devices.names[*own] : "-";
}

// The limit as it is now (slurmd's), and as slurmstepd sets it again after this hook from srun's.
void raise_open_files(spank_t spank) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (step_variable(spank, "SLURM_RLIMIT_NOFILE"))
    spank_setenv(spank, "SLURM_RLIMIT_NOFILE", std::to_string(limit.rlim_max).c_str(), 1);
}

// Interfaces for NCCL's sockets; "" leaves them to NCCL.
std::string sockets_for_nccl(const Options& options, const TaskPlan& plan) {
  if (plan.node_count < 2 || plan.interface.empty())
    return "";
  auto all = interface_addresses();
  return names_interfaces(options) ? nccl_exactly(select_interfaces(*options.iface, all))
                                   : nccl_interfaces(all, plan.interface);
}

std::string lines(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts)
    all += (all.empty() ? "" : "\n") + text;
  return all;
}

// `task` is what is known when it fails.
Result<void> become_rank(spank_t spank, const Options& options, std::optional<Task>& task) {
  auto secret = read_variable(spank, kTokenVariable);
  if (!secret)
    return secret.error();
  auto token = parse_token(secret->value_or(""));
  if (!token)
    fail_node(spank, {"srun gave this step no secret", kSubmittingHost});
  if (options.limits == LimitRule::kRaise)
    raise_open_files(spank);
  auto facts = read_facts(spank);
  if (!facts)
    return facts.error();
  auto known = broker_of(spank);
  if (!known)
    return known.error();
  auto broker = *std::move(known);
  broker.token = *token;

  auto local_tasks = static_cast<std::uint32_t>(facts->node_ranks.size());
  auto devices = task_devices(facts->environment, local_tasks, gpu_vendor());
  auto cpus = allowed_cpus();
  auto cores = cores_of_task(facts->environment, cpus, local_tasks);
  auto placed = machine ? take_share(*machine, options, *facts, devices) : TaskShare{};
  if (placed.cores > 0)
    cores = placed.cores;
  auto oversubscribe = options.oversubscribe.value_or(false);
  auto row = placed.cells;
  row.node = facts->node_name;
  row.rank = facts->rank;
  row.local_rank = facts->local_rank;
  if (row.gpu == "-")
    row.gpu = gpu_of(devices, facts->local_rank, oversubscribe);
  if (row.cores == "-" && !cpus.empty())
    row.cores = id_set_text(cpus);
  task.emplace(Task{broker, report_of(*facts, options, std::move(row))});
  if (facts->local_rank == 0) {
    task->report.facts = gather_node_facts(*facts, devices, cpus, cores);
    task->report.facts->warnings = lines(placed.warnings);
  }
  auto meeting = meet(*facts, options, broker, task->report);
  if (!meeting)
    return meeting.error();
  auto& plan = meeting->plan;
  if (checks_layout(options.mode.value_or(Mode::kTorch)))
    if (auto layout = parse_layout(plan.layout))
      if (auto refused = refused_layout(options, *layout, facts->command))
        return *std::move(refused);
  if (options.dry_run.value_or(false))
    _exit(0);

  if (broker.port != 0 && !broker.hosts.empty())
    plan.broker = host_port_text(broker.hosts.front(), broker.port);
  if (options.iface == "none")
    plan.interface.clear();
  plan.nccl_interfaces = sockets_for_nccl(options, plan);
  plan.configured = read_nccl_conf(std::string(value_of(facts->environment, "HOME")));
  plan.cores = cores;
  plan.gpus = std::move(placed.gpus);
  plan.numa = std::move(placed.numa);
  plan.nics = std::move(placed.nics);
  plan.defaults = std::move(placed.variables);
  if (!placed.devices.empty()) {
    plan.devices = rearranged_lists(facts->environment, devices, placed.devices);
    devices = seen_at(devices, placed.devices);
  }
  plan.gpu_count = devices.count;
  plan.jax_devices = jax_device_ids(devices, facts->local_rank, local_tasks, oversubscribe);
  if (meeting->store) {
    auto store = hand_over(std::move(meeting->store));
    auto held = hand_over(std::move(meeting->held));
    if (!store || !held)
      return (store ? held : store).error();
    plan.store_fd = *store;
    plan.port_fd = *held;
  }
  if (meeting->jax) {
    auto jax = hand_over(std::move(meeting->jax));
    if (!jax)
      return jax.error();
    plan.jax_fd = *jax;
  }
  auto env = task_environment(plan, options, facts->environment);
  auto wait = std::chrono::seconds(options.wait_seconds.value_or(kDefaultWaitSeconds));
  auto warnings = check_kept_endpoint(plan, env, facts->environment, wait);
  if (!warnings)
    return warnings.error();
  env.notices.insert(env.notices.end(), warnings->begin(), warnings->end());
  if (facts->environment.contains(kKillVariable))
    env.changes.push_back({kSlurmKillVariable, std::nullopt});
  if (auto applied = apply_changes(spank, env.changes); !applied)
    return applied;
  if (plan.rank == 0)
    for (const auto& notice : env.notices)
      tell_user(notice);
  return {};
}

} // namespace

void keep_option(const char* text) noexcept {
  option_given = true;
  auto length = text ? strnlen(text, kMaxOptionText) : 0;
  if (length > 0)
    std::memcpy(option_text.data(), text, length);
  option_text[length] = '\0';
}

void task_init_privileged(spank_t spank) {
  auto srun_step = is_srun_step(spank);
  auto said = read_variable(spank, kOptionsVariable);
  if (!srun_step || !*srun_step || !said || !*said)
    return;
  if (auto user = read_user(spank); user && places(**said))
    machine = new Result<std::string>(read_node_machine(**said, *user));
}

void task_init(spank_t spank) {
  auto srun_step = is_srun_step(spank);
  if (srun_step && !*srun_step)
    return;
  // srun's canonical text; else the option as Slurm handed it on. Where Slurm fails to tell, only a
  // step that is known to have asked may end of it.
  auto said = read_variable(spank, kOptionsVariable);
  bool asked = srun_step && option_given;
  if (!asked && (!said || !*said))
    return;
  if (!said)
    fail(said.error());
  auto options = parse_options(*said ? **said : option_text.data(), OptionSource::kResolved);
  if (!options)
    fail_node(spank, options.error());
  if (options->mode && !is_on(*options)) {
    spank_unsetenv(spank, kOptionsVariable); // the task sees nothing of us
    return;
  }
  if (!srun_step)
    fail(srun_step.error());
  Watchdog watchdog(
      patience(std::chrono::seconds(options->wait_seconds.value_or(kDefaultWaitSeconds))));
  std::optional<Task> task;
  if (auto done = become_rank(spank, *options, task); !done)
    task ? fail(*task, done.error()) : fail(done.error());
}

} // namespace dist_train::remote
