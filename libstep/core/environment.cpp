// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/environment.h"

#include "libstep/core/placement.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <array>
#include <set>

namespace dist_train {

namespace {

// A single string of exec() may have 128 KiB; a longer layout would keep the task from starting.
constexpr std::size_t kMaxLayout = 100'000;

// Variables of another launcher, which would make a framework believe it was started by it; and
// our own of an outer step. In mode torchrun what the user has told torchrun stays.
constexpr std::array<std::string_view, 4> kRemovedPrefixes{"TORCHELASTIC_", "DIST_TRAIN_",
                                                           "SLURM_DIST_TRAIN_", "PET_"};
// Of a rank; a task that starts ranks has none of its own, and an inherited one is never right.
constexpr std::array kRankVariables{"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "NODE_RANK",
                                    "GROUP_RANK",
                                    "GROUP_WORLD_SIZE",
                                    "ROLE_RANK",
                                    "ROLE_WORLD_SIZE",
                                    "ROLE_NAME",
                                    "JAX_COORDINATOR_ADDRESS",
                                    "JAX_COORDINATOR_PORT",
                                    "JAX_NUM_PROCESSES",
                                    "JAX_PROCESS_ID"};
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
  void remove(const std::string& name) { plan_.changes.push_back({name, std::nullopt}); }
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

// What all ranks must agree on: the user's own value stays with env=keep, if it can work; otherwise
// ours wins, and the user is told. The value that the task has in the end.
std::string set_common(Changes& changes, EnvPlan& plan, EnvRule rule, const char* name,
                       const std::string& ours, bool several_nodes = false) {
  const auto* theirs = changes.users(name);
  if (!theirs) {
    changes.set_default(name, ours);
    return ours;
  }
  bool useless = several_nodes && is_loopback_name(*theirs);
  if (rule == EnvRule::kKeep && !useless) {
    changes.keep(name, *theirs);
    return *theirs;
  }
  if (*theirs != ours)
    plan.notices.push_back(
        std::string(name) + " is " + ours + ", not your " + quoted(*theirs) +
        (useless ? ": no other node would find rank 0 there" : " (env=keep keeps yours)"));
  changes.set(name, ours);
  return ours;
}

struct Endpoint {
  std::string address, port;
};

Endpoint set_master(Changes& changes, EnvPlan& result, EnvRule rule, const TaskPlan& plan) {
  Endpoint master;
  master.address =
      set_common(changes, result, rule, "MASTER_ADDR", plan.master_address, plan.node_count > 1);
  master.port = set_common(changes, result, rule, "MASTER_PORT", std::to_string(plan.ports.master));
  return master;
}

void set_rank(Changes& changes, const TaskPlan& plan) {
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
}

void set_jax(Changes& changes, const TaskPlan& plan) {
  if (plan.ports.jax != 0) {
    changes.set("JAX_COORDINATOR_ADDRESS", host_port_text(plan.master_address, plan.ports.jax));
    changes.set("JAX_COORDINATOR_PORT", plan.ports.jax);
    changes.set("JAX_NUM_PROCESSES", plan.world_size);
    changes.set("JAX_PROCESS_ID", plan.rank);
  }
  if (!plan.jax_devices.empty())
    changes.set_default("JAX_LOCAL_DEVICE_IDS", plan.jax_devices);
}

// What DeepSpeed's own launcher sets beside the torch contract: a CPU accelerator takes LOCAL_SIZE
// for its number of devices, the checkpoint writers read the others. What an mpirun around srun has
// left would stop it where it contradicts LOCAL_RANK.
void set_deepspeed(Changes& changes, EnvPlan& result, const TaskPlan& plan,
                   const Environment& inherited) {
  changes.set("CROSS_RANK", plan.node_rank);
  changes.set("CROSS_SIZE", plan.node_count);
  changes.set("LOCAL_SIZE", plan.local_world_size);
  std::vector<std::string> removed;
  for (const auto& [name, value] : inherited)
    if (name.starts_with("OMPI_COMM_WORLD_"))
      removed.push_back(name);
  for (const auto& name : removed)
    changes.remove(name);
  if (!removed.empty())
    result.notices.push_back(listing(removed) + " of an mpirun around srun " +
                             (removed.size() == 1 ? "is" : "are") +
                             " removed: DeepSpeed would take " +
                             (removed.size() == 1 ? "it" : "them") + " for this step's");
  const auto gpus = value_of(inherited, "CUDA_VISIBLE_DEVICES");
  if (gpus.starts_with("GPU-") || gpus.starts_with("MIG-"))
    result.notices.push_back(
        "Slurm names the GPUs by UUID; DeepSpeed's memory query (available_memory) reads numbers "
        "only and fails with ValueError where pynvml is installed: uninstall that, or remove "
        "env_uuid from gres.conf");
}

// The agent's arguments as it reads them where its command line says nothing. Static, because only
// then the ranks follow the nodes' order, and rank 0 is where the port is held.
void set_torchrun(Changes& changes, EnvPlan& result, EnvRule rule, const TaskPlan& plan,
                  std::uint32_t processes, bool processes_said) {
  auto master = set_master(changes, result, rule, plan);
  changes.set("NODE_RANK", plan.node_rank);
  auto common = [&](const char* name, const std::string& value) {
    set_common(changes, result, rule, name, value);
  };
  common("PET_RDZV_BACKEND", "static");
  common("PET_NNODES", std::to_string(plan.node_count));
  if (plan.node_count > 1) // the user's own would be the same on all of them
    changes.set("PET_NODE_RANK", plan.node_rank);
  else
    common("PET_NODE_RANK", "0");
  common("PET_MASTER_ADDR", master.address);
  common("PET_MASTER_PORT", master.port);
  changes.set_default("PET_RDZV_ID", step_text(plan.id));
  if (processes_said)
    changes.set("PET_NPROC_PER_NODE", processes);
  else
    changes.set_default("PET_NPROC_PER_NODE", std::to_string(processes));
  // These would beat the ones above.
  for (const char* name : {"PET_RDZV_ENDPOINT", "PET_STANDALONE"}) {
    const auto* theirs = changes.users(name);
    if (!theirs || theirs->empty() || *theirs == "0")
      continue;
    if (rule == EnvRule::kKeep) {
      changes.keep(name, *theirs);
      continue;
    }
    changes.remove(name);
    result.notices.push_back("your " + std::string(name) + '=' + quoted(*theirs) +
                             " is removed: torchrun would not meet at MASTER_ADDR (env=keep keeps "
                             "it)");
  }
}

void set_ray(Changes& changes, EnvPlan& result, EnvRule rule, const TaskPlan& plan,
             const Environment& inherited) {
  changes.set("DIST_TRAIN_RAY_ADDRESS", host_port_text(plan.master_address, plan.ports.master));
  changes.set("DIST_TRAIN_RAY_NODES", plan.node_count);
  if (plan.cores > 0)
    changes.set("DIST_TRAIN_RAY_CPUS", plan.cores);
  if (overlap({plan.ports.master, plan.ports.master}, kRayWorkerPorts))
    result.notices.push_back(
        "the head's port " + std::to_string(plan.ports.master) + " is one of Ray's worker ports (" +
        std::to_string(kRayWorkerPorts.low) + "-" + std::to_string(kRayWorkerPorts.high) +
        "), and ray start refuses that; give it --min-worker-port and --max-worker-port, or "
        "--dist-train another port=LO-HI");
  // Slurm sets the first alone, also without a GPU of AMD's, and Ray then refuses to start. HIP
  // counts inside the other's list, so this hides nothing.
  if (const auto rocr = value_of(inherited, "ROCR_VISIBLE_DEVICES");
      !rocr.empty() && !inherited.contains("HIP_VISIBLE_DEVICES")) {
    std::string all;
    for (std::size_t i = 0; i < split(rocr, ',').size(); ++i)
      all += (i == 0 ? "" : ",") + std::to_string(i);
    changes.set_default("HIP_VISIBLE_DEVICES", all);
  }
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) // Ray's actors agree on their own
    if (rule == EnvRule::kOurs || !changes.users(name))
      changes.remove(name);
}

// What libstep reads.
void set_own(Changes& changes, const TaskPlan& plan, const Options& options) {
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
  for (const auto& [name, fd] :
       {std::pair("DIST_TRAIN_STORE_FD", plan.store_fd),
        std::pair("DIST_TRAIN_PORT_FD", plan.port_fd), std::pair("DIST_TRAIN_JAX_FD", plan.jax_fd)})
    if (fd >= 0)
      changes.set(name, static_cast<std::uint32_t>(fd));
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
  const auto mode = options.mode.value_or(Mode::kTorch);
  const auto rule = options.env.value_or(EnvRule::kOurs);

  for (const auto& [name, value] : inherited)
    for (auto prefix : kRemovedPrefixes)
      if (name.starts_with(prefix) && name != kKeptName &&
          !(mode == Mode::kTorchrun && prefix == "PET_" && changes.users(name)))
        changes.remove(name);
  if (launches_ranks(mode))
    for (const char* name : kRankVariables)
      if (inherited.contains(name))
        changes.remove(name);

  std::uint32_t processes = 1; // among which the task's cores are to be shared
  switch (mode) {
  case Mode::kTorchrun:
    processes = options.nproc.value_or(0);
    if (processes == 0)
      processes = std::max(1u, plan.gpu_count > 0 ? plan.gpu_count : plan.cores);
    set_torchrun(changes, result, rule, plan, processes, options.nproc.value_or(0) > 0);
    break;
  case Mode::kRay:
    set_ray(changes, result, rule, plan, inherited);
    break;
  default:
    set_rank(changes, plan);
    set_master(changes, result, rule, plan);
    set_jax(changes, plan);
    if (mode == Mode::kDeepspeed)
      set_deepspeed(changes, result, plan, inherited);
    if (mode == Mode::kLightning) // of the job, where Slurm has set it; Lightning means the step's
      changes.set("SLURM_NTASKS_PER_NODE", plan.local_world_size);
  }

  auto omp = options.omp.value_or(OmpRule{});
  if (omp.kind == OmpRule::kFixed)
    changes.set("OMP_NUM_THREADS", omp.threads);
  else if (omp.kind == OmpRule::kAuto && plan.cores > 0 && mode != Mode::kRay) // Ray has its own
    changes.set_default(
        "OMP_NUM_THREADS",
        std::to_string(omp_threads(std::max(1u, plan.cores / processes), plan.gpu_count > 0)));
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

  set_own(changes, plan, options);
  if (options.verbose.value_or(false) && !changes.kept().empty())
    result.notices.push_back("kept yours: " + listing(changes.kept()));
  return result;
}

} // namespace dist_train
