// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/task_share.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace dist_train {

namespace {

using Positions = std::vector<std::size_t>;

constexpr std::size_t kMaxMaskDigits = 1u << 14; // 65,536 CPUs
constexpr std::size_t kMaxMasks = 4096;

// Hexadecimal, "0xff00"; empty if it is none.
IdSet cpus_of_mask(std::string_view mask) {
  IdSet cpus;
  if (mask.starts_with("0x") || mask.starts_with("0X"))
    mask.remove_prefix(2);
  if (mask.size() > kMaxMaskDigits)
    return cpus;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    auto digit = std::string_view("0123456789abcdef").find(mask[mask.size() - 1 - i] | 0x20);
    if (digit == std::string_view::npos)
      return {};
    for (std::uint32_t bit = 0; bit < 4; ++bit)
      if (digit >> bit & 1)
        cpus.push_back(static_cast<std::uint32_t>(4 * i) + bit);
  }
  return cpus;
}

// A mask narrower than what the kernel allows was made by Slurm, for this task alone. It stays,
// unless bind= wants the GPU's CPUs: then it may become wider inside a cgroup's fence, or where
// there is nobody else.
struct Room {
  bool settled = false; // the mask stays
  bool own = false;     // only this task may use it: what the others have is not known
  IdSet cpus;
};

Room room_of(const Machine& machine, const TaskView& view) {
  bool bound = view.mask != view.reach;
  bool moves = view.bind == BindRule::kGpu || view.bind == BindRule::kNuma;
  if (view.bind == BindRule::kKeep || (bound && !moves))
    return {true, false, view.mask};
  bool fenced = view.whole_node || view.reach.size() < all_cpus(machine).size();
  return {false, bound && !fenced, bound && fenced ? view.reach : view.mask};
}

Binding binding_of(const TaskView& view, const Room& room) {
  if (room.settled)
    return Binding::kNone;
  if (view.bind == BindRule::kCore)
    return Binding::kCore;
  // Next to the same GPU may be others, whose GPUs are not known.
  bool crowd = view.gpus_isolated && !room.own && view.local_tasks > 1;
  return view.bind == BindRule::kNuma || crowd ? Binding::kNuma : Binding::kGpu;
}

std::set<std::uint32_t> packages_of(const Machine& machine, const IdSet& cpus) {
  std::set<std::uint32_t> packages;
  for (const auto& core : machine.cores)
    if (!intersection(core.cpus, cpus).empty())
      packages.insert(core.package);
  return packages;
}

// 0 next to each other, 1 in one package, 2 farther or unknown.
int distance(const Machine& machine, const IdSet& cpus, const IdSet& near_gpu) {
  if (!intersection(cpus, near_gpu).empty())
    return 0;
  auto a = packages_of(machine, cpus), b = packages_of(machine, near_gpu);
  return a.size() == 1 && a == b ? 1 : 2;
}

// GPUs of each task, as positions in the view: `each` of them one after the other. Where the masks
// are settled a task gets the nearest that are left.
Positions deal_gpus(const Machine& machine, const TaskView& view, bool settled, std::size_t each) {
  Positions dealt(view.gpus.size());
  std::iota(dealt.begin(), dealt.end(), 0);
  if (!settled || !view.gpus_movable || view.masks.size() != view.local_tasks)
    return dealt;
  constexpr std::size_t kNone = ~std::size_t{0};
  std::fill(dealt.begin(), dealt.end(), kNone);
  std::vector<bool> taken(view.gpus.size(), false);
  auto first_left = [&](auto fits) {
    std::size_t position = 0;
    while (position < taken.size() && (taken[position] || !fits(position)))
      ++position;
    return position;
  };
  auto tasks = std::min<std::size_t>(view.local_tasks, view.gpus.size());
  for (int most = 0; most < 3; ++most)
    for (std::size_t nth = 0; nth < each; ++nth)
      for (std::size_t task = 0; task < tasks; ++task) {
        auto& gpu = dealt[task * each + nth];
        auto position = gpu != kNone ? taken.size() : first_left([&](std::size_t i) {
          return distance(machine, view.masks[task], machine.gpus[*view.gpus[i]].pci.cpus) <= most;
        });
        if (position == taken.size())
          continue;
        gpu = position;
        taken[position] = true;
      }
  for (auto& gpu : dealt) // more than are multiples of the tasks
    if (gpu == kNone) {
      gpu = first_left([](std::size_t) { return true; });
      taken[gpu] = true;
    }
  return dealt;
}

// Frameworks take the GPU at the position LOCAL_RANK: first the first of each task, then the
// others.
Positions visible_order(const Positions& dealt, std::size_t each) {
  Positions order;
  for (std::size_t nth = 0; nth < each; ++nth)
    for (std::size_t i = nth; i < dealt.size(); i += each)
      order.push_back(dealt[i]);
  return order;
}

using Names = std::vector<std::string>;

// The first `most`, and how many more.
std::string joined(const Names& names, std::size_t most = ~std::size_t{0}) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "" : ",") + names[i];
  return text + (names.size() > most ? " +" + std::to_string(names.size() - most) : "");
}

std::string cell(std::string text) { return text.empty() ? "-" : text; }

Names gpu_names(const Machine& machine, const TaskPlacement& task) {
  Names names;
  for (auto i : task.gpus) {
    const auto& gpu = machine.gpus[i];
    names.push_back(to_text(gpu.pci.address) +
                    (gpu.partitions > 1 ? "/" + std::to_string(gpu.partition) : ""));
  }
  return names;
}

Names nic_names(const Machine& machine, const TaskPlacement& task) {
  Names names;
  for (auto i : task.nics) {
    const auto& nic = machine.nics[i];
    names.push_back(nic_name(nic) +
                    (nic.rdma.empty() ? "" : ":" + std::to_string(usable_port(nic))));
  }
  return names;
}

// Tasks whose settled mask is not next to their GPU.
void warn_of_far_masks(const Machine& machine, const TaskView& view, const Placement& placement,
                       TaskShare& share) {
  std::size_t far = 0;
  for (std::size_t task = 0; task < view.masks.size(); ++task) {
    const auto& gpus = placement.tasks[task].gpus;
    far += !gpus.empty() && !machine.gpus[gpus.front()].pci.cpus.empty() &&
           intersection(view.masks[task], machine.gpus[gpus.front()].pci.cpus).empty();
  }
  if (far > 0)
    share.warnings.push_back(std::to_string(far) + " of " + std::to_string(view.local_tasks) +
                             " tasks are bound to CPUs that are not next to their GPU; fix: "
                             "--dist-train=bind=gpu without --cpu-bind, or --cpu-bind=none");
}

} // namespace

TaskShare share_of_task(const Machine& machine, const TaskView& view) {
  auto room = room_of(machine, view);
  bool known = std::all_of(view.gpus.begin(), view.gpus.end(), [](auto gpu) { return gpu; });
  auto count = known ? view.gpus.size() : 0;
  bool alone = room.own || view.gpus_isolated;
  std::size_t each = count > 0 && count % view.local_tasks == 0 ? count / view.local_tasks : 1;
  auto dealt = known ? deal_gpus(machine, view, room.settled, each) : Positions{};

  PlacementRequest request;
  request.binding = binding_of(view, room);
  request.cpus = room.cpus;
  request.barred = view.barred_nics;
  request.tasks = alone ? 1 : view.local_tasks;
  Positions own = dealt; // of this task
  if (count > 0 && !view.gpus_isolated) {
    auto first = dealt.begin() + static_cast<std::ptrdiff_t>(each * view.local_rank % count);
    own.assign(first, first + static_cast<std::ptrdiff_t>(each));
  }
  for (auto position : alone ? own : dealt)
    request.gpus.push_back(*view.gpus[position]);
  auto placement = plan_placement(machine, request);
  const auto& task = placement.tasks[alone ? 0 : view.local_rank];

  TaskShare share;
  share.warnings = placement.warnings;
  if (!room.settled) {
    share.cpus = task.cpus;
    share.cores = task.shared ? 0 : task.cores;
    share.memory = task.memory;
    std::erase_if(share.memory, [&](std::uint32_t node) {
      return !std::binary_search(view.memory.begin(), view.memory.end(), node);
    });
  } else if (!alone) {
    warn_of_far_masks(machine, view, placement, share);
  }
  if (count > 0 && view.gpus_movable && !view.gpus_isolated) {
    Positions unmoved(count);
    std::iota(unmoved.begin(), unmoved.end(), 0);
    auto order = view.gpu_rule == GpuRule::kOwn ? own : visible_order(dealt, each);
    if (order != unmoved)
      share.devices = std::move(order);
  }
  constexpr std::size_t kMostInACell = 2;
  auto gpus = gpu_names(machine, task), nics = nic_names(machine, task);
  share.cells.cores =
      cell(id_set_text(room.settled ? view.mask : share.cpus)) + (room.settled ? " kept" : "");
  share.cells.gpu = cell(joined(gpus, kMostInACell));
  share.cells.numa = cell(id_set_text(task.numa));
  share.cells.nic = cell(joined(nics, kMostInACell));
  share.gpus = joined(gpus);
  share.numa = id_set_text(task.numa);
  share.nics = joined(nics);
  if (!task.nics.empty())
    share.cells.nic_class = to_text(task.nic_class);
  // A list of HCAs must be the same in all tasks of the node: not one that was planned for one
  // task.
  bool partial = alone && view.local_tasks > 1;
  for (auto& variables : {placement_variables(placement), task_variables(task)})
    for (const auto& variable : variables)
      if (variable.first != "OMP_NUM_THREADS" && !(partial && variable.first == "NCCL_IB_HCA"))
        share.variables.push_back(variable);
  return share;
}

std::vector<IdSet> bound_masks(const Environment& environment, std::uint32_t local_tasks) {
  std::vector<IdSet> masks;
  if (!value_of(environment, "SLURM_CPU_BIND_TYPE").starts_with("mask_cpu"))
    return masks;
  for (auto mask : split(value_of(environment, "SLURM_CPU_BIND_LIST"), ',')) {
    masks.push_back(cpus_of_mask(mask));
    if (masks.back().empty() || masks.size() > kMaxMasks)
      return {};
  }
  for (std::size_t i = 0; !masks.empty() && masks.size() < local_tasks; ++i)
    masks.push_back(masks[i]); // Slurm takes them in turns
  masks.resize(std::min<std::size_t>(masks.size(), local_tasks));
  return masks;
}

} // namespace dist_train
