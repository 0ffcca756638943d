// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/plan.h"

#include "libstep/core/placement.h"
#include "libstep/core/text.h"
#include "libstep/core/visible_gpus.h"
#include "libstep/tools/arguments.h"
#include "libstep/tools/json.h"
#include "libstep/tools/table.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace dist_train {

namespace {

using Arguments = std::map<std::string, std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr std::uint32_t kMaxTasks = 4096;

constexpr std::pair<std::string_view, Binding> kBindings[] = {{"auto", Binding::kGpu},
                                                              {"gpu", Binding::kGpu},
                                                              {"numa", Binding::kNuma},
                                                              {"core", Binding::kCore},
                                                              {"keep", Binding::kNone},
                                                              {"none", Binding::kNone}};

Result<PlacementRequest> request_of(const Machine& machine, const Arguments& arguments) {
  PlacementRequest request;
  if (auto list = arguments.find("gpus"); list != arguments.end()) {
    auto gpus = find_gpus(machine, list->second);
    if (!gpus)
      return gpus.error();
    request.gpus = *gpus;
  } else {
    request.gpus.resize(machine.gpus.size());
    std::iota(request.gpus.begin(), request.gpus.end(), 0);
  }
  request.tasks = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(request.gpus.size()));
  if (auto tasks = arguments.find("tasks"); tasks != arguments.end()) {
    auto number = parse_number(tasks->second, kMaxTasks);
    if (!number || *number == 0)
      return Error{"--tasks " + quoted(tasks->second) + " is not a number from 1 to " +
                   std::to_string(kMaxTasks)};
    request.tasks = static_cast<std::uint32_t>(*number);
  }
  if (auto cpus = arguments.find("cpus"); cpus != arguments.end()) {
    auto set = parse_id_set(cpus->second);
    if (!set)
      return set.error();
    request.cpus = intersection(*set, all_cpus(machine));
    IdSet absent;
    std::set_difference(set->begin(), set->end(), request.cpus.begin(), request.cpus.end(),
                        std::back_inserter(absent));
    if (request.cpus.empty())
      return Error{"--cpus " + quoted(cpus->second) + " holds no CPU of the machine, which has " +
                       id_set_text(all_cpus(machine)),
                   "dist-train topo shows the CPUs"};
    if (!absent.empty())
      std::fprintf(stderr, "warning: CPUs %s do not exist on this machine\n",
                   id_set_text(absent).c_str());
  }
  if (auto bind = arguments.find("bind"); bind != arguments.end()) {
    auto known = std::find_if(std::begin(kBindings), std::end(kBindings),
                              [&](const auto& entry) { return entry.first == bind->second; });
    if (known == std::end(kBindings))
      return Error{"--bind " + quoted(bind->second) + " is not auto, gpu, numa, core, keep or none"};
    request.binding = known->second;
  }
  return request;
}

std::string json_object(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables)
    text += (text.empty() ? "" : ", ") + json_text(name) + ": " + json_text(value);
  return "{" + text + "}";
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const auto& text : texts)
    list += (list.empty() ? "" : ", ") + json_text(text);
  return "[" + list + "]";
}

// null for none, a number for one, text for several.
std::string json_set(const IdSet& set) {
  return set.empty()       ? "null"
         : set.size() == 1 ? std::to_string(set.front())
                           : json_text(id_set_text(set));
}

std::vector<std::string> names_of(const Machine& machine, const std::vector<std::size_t>& nics) {
  std::vector<std::string> names;
  for (auto i : nics)
    names.push_back(nic_name(machine.nics[i]));
  return names;
}

std::vector<std::string> addresses_of(const Machine& machine,
                                      const std::vector<std::size_t>& gpus) {
  std::vector<std::string> addresses;
  for (auto i : gpus)
    addresses.push_back(to_text(machine.gpus[i].pci.address));
  return addresses;
}

std::string json_task(const Machine& machine, const TaskPlacement& task, std::size_t rank) {
  auto gpus = addresses_of(machine, task.gpus);
  std::string text = "{\"local_rank\": " + std::to_string(rank);
  text += ", \"gpu\": " + (gpus.empty() ? "null" : json_text(gpus.front()));
  if (!task.gpus.empty() && machine.gpus[task.gpus.front()].partitions > 1)
    text += ", \"partition\": " + std::to_string(machine.gpus[task.gpus.front()].partition);
  text += ", \"gpus\": " + json_list(gpus);
  text += ", \"numa\": " + json_set(task.numa);
  text += ", \"cpus\": " + json_text(id_set_text(task.cpus));
  text += ", \"cores\": " + std::to_string(task.cores);
  text += std::string(", \"shared\": ") + (task.shared ? "true" : "false");
  text += ", \"memory\": " + json_text(id_set_text(task.memory));
  text += ", \"nics\": " + json_list(names_of(machine, task.nics));
  text += ", \"nic_class\": " + (task.nics.empty() ? "null" : json_text(to_text(task.nic_class)));
  text += ", \"env\": " + json_object(task_variables(task));
  return text + ", \"why\": " + json_text(task.why) + "}";
}

void print_json(const Machine& machine, const Placement& placement) {
  std::string tasks;
  for (std::size_t i = 0; i < placement.tasks.size(); ++i)
    tasks += (i == 0 ? "\n  " : ",\n  ") + json_task(machine, placement.tasks[i], i);
  std::printf("{\"tasks\": [%s\n ],\n \"env\": %s,\n \"warnings\": %s}\n", tasks.c_str(),
              json_object(placement_variables(placement)).c_str(),
              json_list(placement.warnings).c_str());
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

void print_text(const Machine& machine, const Placement& placement) {
  std::vector<std::vector<std::string>> rows{
      {">local", "gpu", ">numa", ">cores", "cpus", "nic", "class"}};
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    const auto& task = placement.tasks[i];
    rows.push_back({std::to_string(i), or_dash(joined(addresses_of(machine, task.gpus), ",")),
                    or_dash(id_set_text(task.numa)),
                    std::to_string(task.cores) + (task.shared ? " shared" : ""),
                    or_dash(id_set_text(task.cpus)),
                    or_dash(joined(names_of(machine, task.nics), ",")),
                    task.nics.empty() ? "-" : to_text(task.nic_class)});
  }
  std::fputs(table_text(std::move(rows)).c_str(), stdout);
  std::puts("");
  for (std::size_t i = 0; i < placement.tasks.size(); ++i)
    std::printf("task %zu: %s\n", i, placement.tasks[i].why.c_str());
  std::puts("");
  for (const auto& [name, value] : placement_variables(placement))
    std::printf("%s=%s\n", name.c_str(), value.c_str());
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    std::vector<std::string> words;
    for (const auto& [name, value] : task_variables(placement.tasks[i]))
      words.push_back(name + "=" + value);
    if (!words.empty())
      std::printf("task %zu: %s\n", i, joined(words, " ").c_str());
  }
  for (const auto& warning : placement.warnings)
    std::printf("warning: %s\n", warning.c_str());
}

} // namespace

int run_plan(const std::vector<std::string>& words) {
  auto arguments = parse_arguments(words, {"json"}, {"machine", "gpus", "tasks", "cpus", "bind"});
  if (!arguments)
    return complain("plan", arguments.error(), 2);
  auto machine = machine_argument(*arguments);
  if (!machine)
    return complain("plan", machine.error(), 1);
  auto request = request_of(*machine, *arguments);
  if (!request)
    return complain("plan", request.error(), 2);
  auto placement = plan_placement(*machine, *request);
  (arguments->contains("json") ? print_json : print_text)(*machine, placement);
  return 0;
}

} // namespace dist_train
