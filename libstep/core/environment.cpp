// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/environment.h"

#include "libstep/core/text.h"

#include <array>

namespace dist_train {

namespace {

// A single string of exec() may have 128 KiB; a longer layout would keep the task from starting.
constexpr std::size_t kMaxLayout = 100'000;

// Variables of another launcher, which would make a framework believe it was started by it; and
// our own of an outer step.
constexpr std::array<std::string_view, 4> kRemovedPrefixes{"TORCHELASTIC_", "PET_", "DIST_TRAIN_",
                                                           "SLURM_DIST_TRAIN_"};

class Changes {
public:
  Changes(EnvPlan& plan, const Environment& inherited) : plan_(plan), inherited_(inherited) {}

  void set(const char* name, std::string value) {
    plan_.changes.push_back({name, std::move(value)});
  }
  void set(const char* name, std::uint32_t value) { set(name, std::to_string(value)); }
  void set_if_unset(const char* name, std::string value) {
    if (!inherited(name))
      set(name, std::move(value));
  }
  const std::string* inherited(std::string_view name) const {
    auto found = inherited_.find(name);
    return found == inherited_.end() ? nullptr : &found->second;
  }

private:
  EnvPlan& plan_;
  const Environment& inherited_;
};

// The user's own value stays with env=keep; otherwise ours wins, and the user is told. What an
// outer step of ours has left in the environment is not the user's.
void set_endpoint(Changes& changes, EnvPlan& plan, EnvRule rule, const char* name,
                  const std::string& ours) {
  const auto* theirs = changes.inherited("DIST_TRAIN_STEP") ? nullptr : changes.inherited(name);
  if (theirs && rule == EnvRule::kKeep)
    return;
  if (theirs && *theirs != ours)
    plan.notices.push_back(std::string(name) + " is " + ours + ", not your " + quoted(*theirs) +
                           " (env=keep keeps yours)");
  changes.set(name, ours);
}

} // namespace

EnvPlan task_environment(const TaskPlan& plan, const Options& options,
                         const Environment& inherited) {
  EnvPlan result;
  Changes changes(result, inherited);

  for (const auto& [name, value] : inherited)
    for (auto prefix : kRemovedPrefixes)
      if (name.starts_with(prefix))
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
  set_endpoint(changes, result, rule, "MASTER_ADDR", plan.master_address);
  set_endpoint(changes, result, rule, "MASTER_PORT", std::to_string(plan.ports.master));
  if (plan.ports.jax != 0) {
    changes.set("JAX_COORDINATOR_ADDRESS", host_port_text(plan.master_address, plan.ports.jax));
    changes.set("JAX_COORDINATOR_PORT", plan.ports.jax);
    changes.set("JAX_NUM_PROCESSES", plan.world_size);
    changes.set("JAX_PROCESS_ID", plan.rank);
  }

  // What an outer step of ours has left is another task's.
  if (!plan.jax_devices.empty() &&
      (!changes.inherited("JAX_LOCAL_DEVICE_IDS") || changes.inherited("DIST_TRAIN_STEP")))
    changes.set("JAX_LOCAL_DEVICE_IDS", plan.jax_devices);

  auto omp = options.omp.value_or(OmpRule{});
  if (omp.kind == OmpRule::kFixed)
    changes.set("OMP_NUM_THREADS", omp.threads);
  else if (omp.kind == OmpRule::kAuto && plan.cores > 0)
    changes.set_if_unset("OMP_NUM_THREADS", std::to_string(plan.cores));
  if (!plan.interface.empty()) {
    changes.set_if_unset("GLOO_SOCKET_IFNAME", plan.interface);
    changes.set_if_unset("TP_SOCKET_IFNAME", plan.interface);
  }
  changes.set_if_unset("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");

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
  changes.set("DIST_TRAIN_RESTART_COUNT", plan.id.restart_count);
  if (plan.store_fd >= 0)
    changes.set("DIST_TRAIN_STORE_FD", static_cast<std::uint32_t>(plan.store_fd));
  if (plan.port_fd >= 0)
    changes.set("DIST_TRAIN_PORT_FD", static_cast<std::uint32_t>(plan.port_fd));
  if (plan.jax_fd >= 0)
    changes.set("DIST_TRAIN_JAX_FD", static_cast<std::uint32_t>(plan.jax_fd));
  return result;
}

} // namespace dist_train
