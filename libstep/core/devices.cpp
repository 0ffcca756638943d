// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/devices.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::size_t kMaxDevices = 1024; // of a list; no node has as many
constexpr std::string_view kCuda = "CUDA_VISIBLE_DEVICES";
constexpr std::string_view kRocr = "ROCR_VISIBLE_DEVICES";
constexpr std::string_view kHip =
    "HIP_VISIBLE_DEVICES"; // positions in ROCR's list, if there is one
constexpr std::string_view kOrdinal = "GPU_DEVICE_ORDINAL";
constexpr std::string_view kZe = "ZE_AFFINITY_MASK";

enum class Kind { kNone, kIndex, kGpu, kMig };

Kind kind_of(std::string_view name) {
  if (name.starts_with("GPU-"))
    return Kind::kGpu;
  if (name.starts_with("MIG-"))
    return Kind::kMig;
  return !name.empty() && name.front() >= '0' && name.front() <= '9' ? Kind::kIndex : Kind::kNone;
}

std::string_view trimmed(std::string_view text) {
  auto first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The variable that counts on a node of this vendor, if it is set.
std::optional<std::string_view> counting_variable(const Environment& environment,
                                                  GpuVendor vendor) {
  using Names = std::vector<std::string_view>;
  const Names amd{kHip, kRocr, kOrdinal};
  Names candidates{kCuda};
  if (vendor == GpuVendor::kAmd)
    candidates = amd;
  if (vendor == GpuVendor::kUnknown) {
    candidates.insert(candidates.end(), amd.begin(), amd.end());
    candidates.push_back(kZe);
  }
  for (auto name : candidates)
    if (environment.contains(name))
      return name;
  return std::nullopt;
}

std::vector<std::string> names_in(const Environment& environment, std::string_view variable) {
  return device_names(variable, value_of(environment, variable));
}

} // namespace

std::vector<std::string> device_names(std::string_view variable, std::string_view list) {
  std::vector<std::string> names;
  auto first_kind = Kind::kNone;
  for (auto entry : split(list, ',')) {
    auto name = trimmed(entry);
    auto kind = kind_of(name);
    if (names.empty())
      first_kind = kind;
    if (kind == Kind::kNone || (variable == kCuda && kind != first_kind) ||
        names.size() == kMaxDevices)
      break;
    if (std::find(names.begin(), names.end(), name) != names.end())
      return {};
    names.emplace_back(name);
  }
  return names;
}

TaskDevices task_devices(const Environment& environment, std::uint32_t local_world_size,
                         GpuVendor vendor) {
  TaskDevices devices;
  auto on_node = static_cast<std::uint32_t>( // of the step
      parse_number(value_of(environment, "SLURM_GPUS_ON_NODE"), kMaxDevices).value_or(0));
  auto variable = counting_variable(environment, vendor);
  if (!variable) {
    devices.count = on_node;
    return devices;
  }
  devices.names = names_in(environment, *variable);
  if (auto outer = names_in(environment, kRocr); *variable == kHip && !outer.empty())
    for (auto& name : devices.names)
      if (auto position = parse_number(name, outer.size() - 1))
        name = outer[*position];
  devices.count = static_cast<std::uint32_t>(devices.names.size());
  devices.isolated = local_world_size > 1 && devices.count > 0 && devices.count < on_node;
  return devices;
}

TaskDevices seen_at(const TaskDevices& devices, const std::vector<std::size_t>& order) {
  TaskDevices seen;
  for (auto position : order)
    seen.names.push_back(devices.names[position]);
  seen.count = static_cast<std::uint32_t>(order.size());
  seen.isolated = devices.isolated || seen.count < devices.count;
  return seen;
}

std::vector<std::pair<std::string, std::string>>
rearranged_lists(const Environment& environment, const TaskDevices& devices,
                 const std::vector<std::size_t>& order) {
  std::vector<std::pair<std::string, std::string>> lists;
  auto add = [&](std::string_view variable, auto name_at) {
    std::string list;
    for (std::size_t i = 0; i < order.size(); ++i)
      list += (i == 0 ? "" : ",") + name_at(i);
    lists.emplace_back(variable, std::move(list));
  };
  bool rocr = environment.contains(kRocr), hip = environment.contains(kHip);
  for (auto variable : {kCuda, kRocr, kHip, kOrdinal, kZe}) {
    if (!environment.contains(variable))
      continue;
    auto names = variable == kRocr && hip ? devices.names : names_in(environment, variable);
    if (variable == kHip && rocr)
      add(variable, [](std::size_t i) { return std::to_string(i); });
    else if (names.size() == devices.names.size()) // else it is not about the same devices
      add(variable, [&](std::size_t i) { return names[order[i]]; });
  }
  return lists;
}

std::optional<std::uint32_t> own_device(const TaskDevices& devices, std::uint32_t local_rank,
                                        bool oversubscribe) {
  bool has_one = local_rank < devices.count || devices.count == 1 || devices.isolated;
  if (devices.count == 0 || (!has_one && !oversubscribe))
    return std::nullopt;
  return local_rank % devices.count;
}

std::string jax_device_ids(const TaskDevices& devices, std::uint32_t local_rank,
                           std::uint32_t local_world_size, bool oversubscribe) {
  if (devices.isolated || local_world_size == 1) {
    std::string ids;
    for (std::uint32_t id = 0; id < devices.count; ++id)
      ids += (id == 0 ? "" : ",") + std::to_string(id);
    return ids;
  }
  auto own = own_device(devices, local_rank, oversubscribe);
  return own ? std::to_string(*own) : "";
}

} // namespace dist_train
