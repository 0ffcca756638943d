// SPDX-License-Identifier: BSD-3-Clause
// A machine's text form, and plans on whatever machine it describes.
#include "libstep/core/devices.h"
#include "libstep/core/machine_text.h"
#include "libstep/core/placement.h"
#include "libstep/core/visible_gpus.h"
#include "tests/fuzz/check.h"

#include <numeric>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

void check_plan(const Machine& machine, std::uint32_t tasks, Binding binding) {
  PlacementRequest request;
  request.tasks = tasks;
  request.binding = binding;
  request.gpus.resize(machine.gpus.size());
  std::iota(request.gpus.begin(), request.gpus.end(), 0);
  auto plan = plan_placement(machine, request);
  require(plan.tasks.size() == tasks, "a plan has all tasks");
  for (const auto& task : plan.tasks) {
    require(task.cpus.empty() == (binding == Binding::kNone), "no task without CPUs");
    require(intersection(task.cpus, machine.allowed_cpus) == task.cpus,
            "no CPU that is not allowed");
    require(printable(task.why) && !task.why.empty(), "a task's reason is readable");
    for (const auto& [name, value] : task_variables(task))
      require(printable(value) && !value.empty(), "a variable is readable");
    for (auto nic : task.nics)
      require(usable_port(machine.nics.at(nic)) != 0, "no NIC that is down");
  }
  for (const auto& warning : plan.warnings)
    require(printable(warning), "a warning is readable");
}

} // namespace

// The first line is a list of GPUs, the rest a machine without the form's first line.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto input = text_of(data, size);
  auto end = std::min(input.find('\n'), input.size());
  auto list = input.substr(0, end);
  auto text = std::string(kMachineTextHead) + " 1\n" + std::string(input.substr(end));
  auto machine = parse_machine_text(text, "f");
  if (!machine) {
    require_readable(machine.error());
    return 0;
  }
  auto written = machine_text(*machine);
  auto again = parse_machine_text(written, "f");
  require(static_cast<bool>(again), "what is written is read");
  require(machine_text(*again) == written, "what is written means the same");
  for (std::uint32_t tasks : {1u, 3u})
    for (auto binding : {Binding::kGpu, Binding::kNuma, Binding::kCore, Binding::kNone})
      check_plan(*machine, tasks, binding);
  std::vector<std::size_t> all(machine->gpus.size());
  std::iota(all.begin(), all.end(), 0);
  for (auto gpu : named_gpus(*machine, device_names("CUDA_VISIBLE_DEVICES", list), all))
    require(!gpu || *gpu < all.size(), "a visible GPU is one of the machine's");
  for (auto nic : barred_nics(*machine, list))
    require(nic < machine->nics.size(), "a barred NIC is one of the machine's");
  if (auto found = find_gpus(*machine, list); !found)
    require_readable(found.error());
  return 0;
}
