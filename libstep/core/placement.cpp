// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/placement.h"

#include "libstep/core/placement_parts.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <iterator>

namespace dist_train {

namespace {

constexpr std::size_t kMaxIbHcas = 32; // NCCL reads no more

std::string count_text(std::size_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string gpu_text(const Machine& machine, std::size_t index) {
  const auto& gpu = machine.gpus[index];
  auto text = to_text(gpu.pci.address);
  return gpu.partitions > 1 ? text + " partition " + std::to_string(gpu.partition) : text;
}

// "mlx5_0:1"; an interface has no ports to tell apart.
std::string port_text(const Nic& nic, std::uint32_t port) {
  return nic.rdma.empty() ? nic_name(nic) : nic.rdma + ":" + std::to_string(port);
}

std::string port_text(const Nic& nic) { return port_text(nic, usable_port(nic)); }

std::string nic_names(const Machine& machine, const std::vector<std::size_t>& nics) {
  std::vector<std::string> names;
  for (auto i : nics)
    names.push_back(nic_name(machine.nics[i]));
  return listing(names);
}

// Local rank r's GPUs: a block where they divide evenly, else its own by number.
std::vector<std::size_t> gpus_of(const PlacementRequest& request, std::size_t rank) {
  const auto& gpus = request.gpus;
  if (gpus.empty())
    return {};
  if (gpus.size() % request.tasks != 0)
    return {gpus[rank % gpus.size()]};
  auto each = gpus.size() / request.tasks;
  auto first = gpus.begin() + static_cast<std::ptrdiff_t>(rank * each);
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

// CPUs next to all of a task's GPUs; empty where one does not say.
IdSet local_cpus(const Machine& machine, const std::vector<std::size_t>& gpus) {
  IdSet cpus;
  for (auto i : gpus) {
    if (machine.gpus[i].pci.cpus.empty())
      return {};
    cpus = united(cpus, machine.gpus[i].pci.cpus);
  }
  return cpus;
}

IdSet numa_next_to(const Machine& machine, const std::vector<std::size_t>& gpus) {
  IdSet numa;
  for (auto i : gpus)
    numa = united(numa, machine.gpus[i].pci.numa);
  return numa;
}

// Nodes for the pages of a task: those its CPUs are on, that of its GPU first; none where that is
// all there are.
IdSet memory_of(const Machine& machine, const TaskPlacement& task) {
  IdSet nodes, all;
  for (const auto& node : machine.numa_nodes)
    if (node.memory == Memory::kDram)
      all.push_back(node.id);
  nodes = intersection(intersection(numa_of(machine, task.cpus), all), machine.allowed_numa);
  if (nodes.size() == intersection(all, machine.allowed_numa).size())
    return {};
  std::stable_partition(nodes.begin(), nodes.end(), [&](std::uint32_t node) {
    return std::binary_search(task.numa.begin(), task.numa.end(), node);
  });
  return nodes;
}

std::uint32_t count_cores(const Machine& machine, const IdSet& cpus) {
  std::uint32_t count = 0;
  for (const auto& core : machine.cores)
    count += !intersection(core.cpus, cpus).empty();
  return count;
}

const char* source_text(CoreSource source) {
  switch (source) {
  case CoreSource::kSpilled:
    return "some from a NUMA node of the package without a GPU of the step";
  case CoreSource::kBorrowed:
    return "some from farther, as too few next to it are allowed";
  case CoreSource::kShared:
    return "shared with other tasks, as there are more tasks than cores";
  case CoreSource::kLocal:
    break;
  }
  return "all next to it";
}

void place_cores(const Machine& machine, const PlacementRequest& request, const IdSet& allowed,
                 std::vector<TaskPlacement>& tasks) {
  if (request.binding == Binding::kNone) {
    for (auto& task : tasks)
      task.why += "; the mask stays as it is";
    return;
  }
  auto everything = all_cpus(machine);
  std::vector<IdSet> local;
  for (const auto& task : tasks) {
    auto near = request.binding == Binding::kCore ? IdSet{} : local_cpus(machine, task.gpus);
    local.push_back(near.empty() ? everything : std::move(near));
  }
  if (request.binding == Binding::kNuma) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      IdSet node = local[i];
      for (const auto& numa : machine.numa_nodes)
        if (!intersection(numa.cpus, local[i]).empty())
          node = united(node, numa.cpus);
      auto cpus = intersection(node, allowed);
      tasks[i].cpus = cpus.empty() ? allowed : cpus;
      tasks[i].cores = count_cores(machine, tasks[i].cpus);
      tasks[i].shared = tasks.size() > 1;
      tasks[i].why += cpus.empty() ? "; all CPUs of the step, as none next to it is allowed"
                                   : "; all allowed CPUs of its NUMA nodes";
    }
    return;
  }
  auto slices = slice_cores(machine, allowed, local);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    bool known = local[i].size() < everything.size();
    tasks[i].cpus = slices[i].cpus;
    tasks[i].cores = slices[i].cores;
    tasks[i].shared = slices[i].source == CoreSource::kShared;
    tasks[i].why += "; " + count_text(slices[i].cores, "core");
    if (known || tasks[i].shared)
      tasks[i].why += std::string(", ") + source_text(slices[i].source);
  }
}

void place_nics(const Machine& machine, const PlacementRequest& request, Placement& placement) {
  std::vector<NicSeeker> seekers;
  std::vector<std::size_t> seeker_of;
  std::vector<const Gpu*> seen;
  for (const auto& task : placement.tasks) {
    // Tasks on one GPU use its NIC; a task without one asks for itself.
    const Gpu* gpu = task.gpus.empty() ? nullptr : &machine.gpus[task.gpus.front()];
    auto known = gpu ? std::find(seen.begin(), seen.end(), gpu) : seen.end();
    seeker_of.push_back(static_cast<std::size_t>(known - seen.begin()));
    if (known != seen.end())
      continue;
    seen.push_back(gpu);
    seekers.push_back(gpu ? NicSeeker{&gpu->pci, {}} : NicSeeker{nullptr, task.numa});
  }
  auto plan = choose_nics(machine, seekers, request.barred);
  bool verbs = plan.fabric == Fabric::kInfiniband || plan.fabric == Fabric::kRoce;

  std::vector<std::string> down;
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    auto& task = placement.tasks[i];
    const auto& choice = plan.choices[seeker_of[i]];
    task.nics = choice.nics;
    task.nic_class = choice.path;
    if (choice.nics.empty()) {
      task.why += "; no fabric NIC";
      continue;
    }
    task.why += "; " + nic_names(machine, choice.nics) + " (" + to_text(choice.path) + ")";
    if (choice.equally_good > choice.nics.size())
      task.why += " of " + std::to_string(choice.equally_good) + " equally near";
    if (verbs && plan.usable.size() + plan.left_out.size() > 1)
      task.ucx_device = port_text(machine.nics[choice.nics.front()]);
    if (choice.nearer_down.empty())
      continue;
    task.why += "; " + nic_names(machine, choice.nearer_down) + " nearer, but down";
    auto whose = task.gpus.empty() ? "local rank " + std::to_string(i)
                                   : "gpu " + gpu_text(machine, task.gpus.front());
    const auto& near = machine.nics[choice.nearer_down.front()];
    auto port = near.rdma.empty() ? "" : " port " + std::to_string(near.ports.front().number);
    down.push_back(nic_name(near) + port + " is DOWN; " + whose + " uses " +
                   port_text(machine.nics[choice.nics.front()]) + " (" + to_text(choice.path) +
                   ")");
  }
  down.erase(std::unique(down.begin(), down.end()), down.end());
  placement.warnings.insert(placement.warnings.end(), down.begin(), down.end());

  if (!verbs || plan.left_out.empty() || plan.usable.size() > kMaxIbHcas)
    return;
  for (auto i : plan.usable)
    for (auto port : usable_ports(machine.nics[i]))
      placement.ib_hca += (placement.ib_hca.empty() ? "=" : ",") + port_text(machine.nics[i], port);
  std::vector<std::size_t> unfit;
  std::set_difference(plan.left_out.begin(), plan.left_out.end(), request.barred.begin(),
                      request.barred.end(), std::back_inserter(unfit));
  if (!unfit.empty())
    placement.warnings.push_back(
        nic_names(machine, unfit) + (unfit.size() == 1 ? " is" : " are") +
        " left out of NCCL_IB_HCA: slower than, a virtual function or not of the "
        "fabric of " +
        nic_names(machine, plan.usable));
}

template <typename Test>
std::vector<std::string> gpus_where(const Machine& machine, const Placement& placement, Test test) {
  std::vector<std::string> names;
  for (const auto& task : placement.tasks)
    if (!task.gpus.empty() && test(task))
      names.push_back(gpu_text(machine, task.gpus.front()));
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void warn_about_cores(const Machine& machine, const PlacementRequest& request, const IdSet& allowed,
                      Placement& placement) {
  std::size_t unknown = 0;
  for (auto i : request.gpus)
    unknown += machine.gpus[i].pci.cpus.empty();
  if (unknown > 0)
    placement.warnings.push_back(
        std::to_string(unknown) + " of " + count_text(request.gpus.size(), "GPU") +
        (unknown == 1 ? " reports" : " report") +
        " no NUMA node (BIOS or hypervisor); their tasks share all cores of the step fairly");
  if (request.binding == Binding::kNone || request.binding == Binding::kCore)
    return;
  auto far = gpus_where(machine, placement, [&](const TaskPlacement& task) {
    auto near = local_cpus(machine, task.gpus);
    return !near.empty() && intersection(near, task.cpus).empty();
  });
  if (!far.empty())
    placement.warnings.push_back("none of the step's CPUs (" + id_set_text(allowed) +
                                 ") is left next to gpu " + listing(far) +
                                 "; its task runs far from it: ask for more CPUs, or with "
                                 "--gres-flags=enforce-binding");
}

} // namespace

Placement plan_placement(const Machine& machine, const PlacementRequest& request) {
  Placement placement;
  auto allowed = request.cpus.empty() ? machine.allowed_cpus : request.cpus;
  if (allowed.empty())
    allowed = all_cpus(machine);
  for (std::size_t rank = 0; rank < request.tasks; ++rank) {
    TaskPlacement task;
    task.gpus = gpus_of(request, rank);
    task.numa = numa_next_to(machine, task.gpus);
    task.why = task.gpus.empty() ? "no GPU" : "GPU " + gpu_text(machine, task.gpus.front());
    if (task.gpus.size() > 1)
      task.why += " and " + std::to_string(task.gpus.size() - 1) + " more";
    if (!task.gpus.empty())
      task.why += task.numa.empty() ? ", NUMA node unknown" : " on NUMA " + id_set_text(task.numa);
    placement.tasks.push_back(std::move(task));
  }
  place_cores(machine, request, allowed, placement.tasks);
  for (auto& task : placement.tasks) {
    if (task.gpus.empty())
      task.numa = numa_of(machine, task.cpus.empty() ? allowed : task.cpus);
    if (!task.cpus.empty())
      task.memory = memory_of(machine, task);
  }
  place_nics(machine, request, placement);
  warn_about_cores(machine, request, allowed, placement);
  return placement;
}

std::uint32_t omp_threads(std::uint32_t cores, bool gpu) {
  auto free = !gpu || cores < 4 ? 0u : cores < 8 ? 1u : 2u;
  return std::max(1u, cores - free);
}

std::vector<std::pair<std::string, std::string>> placement_variables(const Placement& placement) {
  std::vector<std::pair<std::string, std::string>> variables;
  bool gpus = std::any_of(placement.tasks.begin(), placement.tasks.end(),
                          [](const TaskPlacement& task) { return !task.gpus.empty(); });
  if (gpus) // numbers in CUDA_VISIBLE_DEVICES would otherwise count by speed
    variables.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  if (!placement.ib_hca.empty())
    variables.emplace_back("NCCL_IB_HCA", placement.ib_hca);
  return variables;
}

std::vector<std::pair<std::string, std::string>> task_variables(const TaskPlacement& task) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (task.cores > 0 && !task.shared)
    variables.emplace_back("OMP_NUM_THREADS",
                           std::to_string(omp_threads(task.cores, !task.gpus.empty())));
  if (!task.ucx_device.empty())
    variables.emplace_back("UCX_NET_DEVICES", task.ucx_device);
  return variables;
}

} // namespace dist_train
