// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/task_share.h"

#include <algorithm>

namespace dist_train {

namespace {

// CPUs that the tasks of the step may be spread over, and whether only this task may use them.
struct Room {
  IdSet cpus;
  bool own = false;
};

// A mask that is narrower than what the kernel allows was made by Slurm for this task alone. Wider
// than that it may become only inside a cgroup's fence, or where there is nobody else.
Room room_of(const Machine& machine, const TaskView& view) {
  if (view.mask == view.reach)
    return {view.mask, false};
  bool fenced = view.whole_node || view.reach.size() < all_cpus(machine).size();
  return fenced ? Room{view.reach, false} : Room{view.mask, true};
}

Binding binding_of(const TaskView& view) {
  switch (view.bind) {
  case BindRule::kAuto:
    // Slurm has bound the task by itself: that stays.
    return view.mask == view.reach ? Binding::kGpu : Binding::kNone;
  case BindRule::kGpu:
    return Binding::kGpu;
  case BindRule::kNuma:
    return Binding::kNuma;
  case BindRule::kCore:
    return Binding::kCore;
  case BindRule::kKeep:
  case BindRule::kNone:
    break;
  }
  return Binding::kNone;
}

std::string nics_text(const Machine& machine, const TaskPlacement& task) {
  std::string text;
  for (auto i : task.nics) {
    const auto& nic = machine.nics[i];
    text += (text.empty() ? "" : ",") + nic_name(nic);
    if (auto port = usable_port(nic); !nic.rdma.empty() && port != 0)
      text += ':' + std::to_string(port);
  }
  return text;
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

} // namespace

TaskShare share_of_task(const Machine& machine, const TaskView& view) {
  auto room = room_of(machine, view);
  PlacementRequest request;
  request.binding = binding_of(view);
  request.cpus = room.cpus;
  bool known = std::all_of(view.gpus.begin(), view.gpus.end(), [](auto gpu) { return gpu; });
  if (known)
    for (auto gpu : view.gpus)
      request.gpus.push_back(*gpu);
  std::size_t place = view.local_rank;
  request.tasks = view.local_tasks;
  if (room.own || view.gpus_isolated) { // what the other tasks have is not known here
    if (!view.gpus_isolated && !request.gpus.empty())
      request.gpus = {request.gpus[view.local_rank % request.gpus.size()]};
    if (view.gpus_isolated && !room.own && request.binding == Binding::kGpu)
      request.binding = Binding::kNuma;
    request.tasks = 1;
    place = 0;
  }
  auto placement = plan_placement(machine, request);
  const auto& task = placement.tasks[place];

  TaskShare share;
  if (request.binding != Binding::kNone) {
    share.cpus = task.cpus;
    share.threads = task.shared ? 0 : omp_threads(task.cores);
    if (view.bind_memory)
      share.memory = task.memory;
  }
  share.cells.cores = or_dash(id_set_text(share.cpus.empty() ? view.mask : share.cpus));
  if (request.binding == Binding::kNone)
    share.cells.cores += " kept";
  std::string gpus;
  for (auto i : task.gpus)
    gpus += (gpus.empty() ? "" : ",") + to_text(machine.gpus[i].pci.address);
  share.cells.gpu = or_dash(std::move(gpus));
  share.cells.numa = or_dash(id_set_text(task.numa));
  share.cells.nic = or_dash(nics_text(machine, task));
  if (!task.nics.empty())
    share.cells.nic_class = to_text(task.nic_class);
  // A list of HCAs must be the same in all tasks of the node: not one that was planned for one
  // task.
  auto variables = placement_variables(placement);
  for (auto& variable : task_variables(task))
    variables.push_back(std::move(variable));
  bool alone = request.tasks < view.local_tasks;
  for (auto& variable : variables)
    if (variable.first != "OMP_NUM_THREADS" && !(alone && variable.first == "NCCL_IB_HCA"))
      share.variables.push_back(std::move(variable));
  share.warnings = placement.warnings;
  return share;
}

} // namespace dist_train
