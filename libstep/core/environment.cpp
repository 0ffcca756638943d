// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/environment.h"

#include "libstep/core/text.h"

#include <array>
#include <set>

namespace dist_train {

namespace {

// A single string of exec() may have 128 KiB; a longer layout would keep the task from starting.
constexpr std::size_t kMaxLayout = 100'000;

// Variables of another launcher, which would make a framework believe it was started by it; and
// our own of an outer step.
constexpr std::array<std::string_view, 4> kRemovedPrefixes{"TORCHELASTIC_", "PET_", "DIST_TRAIN_",
                                                           "SLURM_DIST_TRAIN_"};
// The user's own: where the Python module finds libstep.
constexpr std::string_view kKeptName = "DIST_TRAIN_LIBSTEP";

// What the plan set because the user had not: for a step that is started inside this one, and would
// take it for the user's wish. NAME=VALUE;NAME=VALUE
constexpr const char* kDefaults = "DIST_TRAIN_DEFAULTS";

class Changes {
public:
  Changes(EnvPlan& plan, const Environment& inherited, const std::set<std::string>& configured)
      : plan_(plan), inherited_(inherited), configured_(configured) {
    if (auto outer = inherited.find(kDefaults); outer != inherited.end())
      for (auto item : split(outer->second, ';'))
        outer_.emplace(item);
  }

  void set(const char* name, std::string value) {
    plan_.changes.push_back({name, std::move(value)});
  }
  void set(const char* name, std::uint32_t value) { set(name, std::to_string(value)); }
  // Where the user has said nothing.
  void set_default(const char* name, const std::string& value) {
    bool in_file = configured_.contains(name);
    if (users(name) || in_file) {
      kept_.push_back(name + std::string(in_file ? " (nccl.conf)" : ""));
      return;
    }
    set(name, value);
    defaults_ += (defaults_.empty() ? "" : ";") + item(name, value);
  }
  // The user's own value: not one that an outer step's plan has left in the environment.
  const std::string* users(const std::string& name) const {
    auto found = inherited_.find(name);
    bool ours = found != inherited_.end() && outer_.contains(item(name, found->second));
    return found == inherited_.end() || ours ? nullptr : &found->second;
  }
  void keep(const char* name, std::string_view value) {
    kept_.push_back(name + ('=' + quoted(value)));
  }
  const std::string& defaults() const { return defaults_; }
  // What the user's own value or a file kept from being set.
  const std::vector<std::string>& kept() const { return kept_; }

private:
  static std::string item(const std::string& name, const std::string& value) {
    return name + '=' + value;
  }

  EnvPlan& plan_;
  const Environment& inherited_;
  const std::set<std::string>& configured_;
  std::vector<std::string> kept_;
  std::set<std::string, std::less<>> outer_; // NAME=VALUE
  std::string defaults_;
};

bool is_loopback_name(std::string_view host) {
  return host.starts_with("localhost") || host.starts_with("127.") || host == "::1";
}

// The user's own value stays with env=keep, if it can work; otherwise ours wins, and the user is
// told.
void set_endpoint(Changes& changes, EnvPlan& plan, EnvRule rule, const char* name,
                  const std::string& ours, bool several_nodes) {
  const auto* theirs = changes.users(name);
  if (!theirs)
    return changes.set_default(name, ours);
  bool useless = several_nodes && is_loopback_name(*theirs);
  if (rule == EnvRule::kKeep && !useless)
    return changes.keep(name, *theirs);
  if (*theirs != ours)
    plan.notices.push_back(
        std::string(name) + " is " + ours + ", not your " + quoted(*theirs) +
        (useless ? ": no other node would find rank 0 there" : " (env=keep keeps yours)"));
  changes.set(name, ours);
}

} // namespace

std::string_view value_of(const Environment& environment, std::string_view name) {
  auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : found->second;
}

EnvPlan task_environment(const TaskPlan& plan, const Options& options,
                         const Environment& inherited) {
  EnvPlan result;
  Changes changes(result, inherited, plan.configured);

  for (const auto& [name, value] : inherited)
    for (auto prefix : kRemovedPrefixes)
      if (name.starts_with(prefix) && name != kKeptName)
        result.changes.push_back({name, std::nullopt});

  changes.set("RANK", plan.rank);
  changes.set("WORLD_SIZE", plan.world_size);
  changes.set("LOCAL_RANK", plan.local_rank);
  changes.set("LOCAL_WORLD_SIZE", plan.local_world_size);
  changes.set("NODE_RANK", plan.node_rank);
  changes.set("GROUP_RANK", plan.node_rank);
  changes.set("GROUP_WORLD_SIZE", plan.node_count);
  changes.set("ROLE_RANK", plan.rank);
  changes.set("ROLE_WORLD_SIZE", plan.world_size);
  changes.set("ROLE_NAME", "default");

  auto rule = options.env.value_or(EnvRule::kOurs);
  set_endpoint(changes, result, rule, "MASTER_ADDR", plan.master_address, plan.node_count > 1);
  set_endpoint(changes, result, rule, "MASTER_PORT", std::to_string(plan.ports.master), false);
  if (plan.ports.jax != 0) {
    changes.set("JAX_COORDINATOR_ADDRESS", host_port_text(plan.master_address, plan.ports.jax));
    changes.set("JAX_COORDINATOR_PORT", plan.ports.jax);
    changes.set("JAX_NUM_PROCESSES", plan.world_size);
    changes.set("JAX_PROCESS_ID", plan.rank);
  }

  if (!plan.jax_devices.empty())
    changes.set_default("JAX_LOCAL_DEVICE_IDS", plan.jax_devices);

  auto omp = options.omp.value_or(OmpRule{});
  if (omp.kind == OmpRule::kFixed)
    changes.set("OMP_NUM_THREADS", omp.threads);
  else if (omp.kind == OmpRule::kAuto && plan.threads > 0)
    changes.set_default("OMP_NUM_THREADS", std::to_string(plan.threads));
  for (const auto& [name, value] : plan.devices)
    changes.set(name.c_str(), value);
  for (const auto& [name, value] : plan.defaults)
    changes.set_default(name.c_str(), value);
  if (!plan.nccl_interfaces.empty())
    changes.set_default("NCCL_SOCKET_IFNAME", plan.nccl_interfaces);
  if (!plan.interface.empty()) {
    changes.set_default("GLOO_SOCKET_IFNAME", plan.interface);
    changes.set_default("TP_SOCKET_IFNAME", plan.interface);
  }
  changes.set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");

  changes.set("DIST_TRAIN_VERSION", 1u);
  changes.set("DIST_TRAIN_MODE", to_text(options.mode.value_or(Mode::kTorch)));
  if (options.strategy)
    changes.set("DIST_TRAIN_STRATEGY", to_text(*options.strategy));
  changes.set("DIST_TRAIN_STEP", step_text(plan.id));
  if (!plan.layout.empty() && plan.layout.size() <= kMaxLayout)
    changes.set("DIST_TRAIN_LAYOUT", plan.layout);
  changes.set("DIST_TRAIN_STORE", host_port_text(plan.master_address, plan.ports.store));
  if (plan.ports.spare_count > 0)
    changes.set("DIST_TRAIN_PORTS",
                std::to_string(plan.ports.spare) + '-' +
                    std::to_string(plan.ports.spare + plan.ports.spare_count - 1));
  changes.set("DIST_TRAIN_TOKEN", plan.token);
  if (!plan.broker.empty())
    changes.set("DIST_TRAIN_BROKER", plan.broker);
  changes.set("DIST_TRAIN_RESTART_COUNT", plan.id.restart_count);
  for (const auto& [name, value] :
       {std::pair("DIST_TRAIN_GPU", &plan.gpus), std::pair("DIST_TRAIN_NUMA", &plan.numa),
        std::pair("DIST_TRAIN_NIC", &plan.nics)})
    if (!value->empty())
      changes.set(name, *value);
  if (!changes.defaults().empty())
    changes.set(kDefaults, changes.defaults());
  if (plan.store_fd >= 0)
    changes.set("DIST_TRAIN_STORE_FD", static_cast<std::uint32_t>(plan.store_fd));
  if (plan.port_fd >= 0)
    changes.set("DIST_TRAIN_PORT_FD", static_cast<std::uint32_t>(plan.port_fd));
  if (plan.jax_fd >= 0)
    changes.set("DIST_TRAIN_JAX_FD", static_cast<std::uint32_t>(plan.jax_fd));
  if (options.verbose.value_or(false) && !changes.kept().empty())
    result.notices.push_back("kept yours: " + listing(changes.kept()));
  return result;
}

} // namespace dist_train
