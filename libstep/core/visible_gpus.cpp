// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/visible_gpus.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

using Indices = std::vector<std::size_t>;

Indices by_uuid(const Machine& machine, std::string_view text) {
  Indices found;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (!machine.gpus[i].uuid.empty() && machine.gpus[i].uuid.starts_with(text))
      found.push_back(i);
  return found.size() == 1 ? found : Indices{};
}

Indices by_address(const Machine& machine, std::string_view text) {
  auto slash = text.find('/');
  auto address = parse_pci_address(text.substr(0, slash));
  auto partition = slash == text.npos ? std::nullopt : parse_number(text.substr(slash + 1), kMaxId);
  Indices found;
  if (!address || (slash != text.npos && !partition))
    return found;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (machine.gpus[i].pci.address == *address &&
        (!partition || machine.gpus[i].partition == *partition))
      found.push_back(i);
  return found;
}

// As their runtime counts them.
Indices in_order(const Machine& machine, Indices gpus) {
  auto order = [&](std::size_t i) { return machine.gpus[i].order; };
  if (std::all_of(gpus.begin(), gpus.end(), order))
    std::stable_sort(gpus.begin(), gpus.end(),
                     [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
  return gpus;
}

Indices by_number(const Machine& machine, std::string_view text) {
  Indices found;
  auto set = parse_id_set(text);
  if (!set || set->empty() || set->back() >= machine.gpus.size())
    return found;
  found.assign(set->begin(), set->end());
  return found;
}

} // namespace

Result<Indices> find_gpus(const Machine& machine, std::string_view list) {
  Indices gpus;
  if (list == "none")
    return gpus;
  for (auto part : split(list, ',')) {
    Indices found = part.find(':') != part.npos ? by_address(machine, part)
                    : part.starts_with("GPU-")  ? by_uuid(machine, part)
                                                : by_number(machine, part);
    if (found.empty())
      return Error{quoted(part) + " names no GPU of this machine, which has " +
                       std::to_string(machine.gpus.size()),
                   "numbers in PCI order, PCI addresses or UUIDs; dist-train topo lists them"};
    for (auto i : found) {
      if (std::find(gpus.begin(), gpus.end(), i) != gpus.end())
        return Error{quoted(part) + " names GPU " + to_text(machine.gpus[i].pci.address) +
                         " once more",
                     "name each GPU once"};
      gpus.push_back(i);
    }
  }
  if (gpus.empty())
    return Error{"an empty list of GPUs", "write 'none' for none"};
  return gpus;
}

std::vector<std::optional<std::size_t>> named_gpus(const Machine& machine,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<std::size_t>& accessible) {
  constexpr std::string_view kMig = "MIG-";
  auto counted = in_order(machine, accessible);
  auto gpu_of = [&](std::string_view name) -> std::optional<std::size_t> {
    if (auto number = parse_number(name, kMaxId))
      return *number < counted.size() ? std::optional(counted[*number]) : std::nullopt;
    bool mig = name.starts_with(kMig);
    if (mig)
      name = name.substr(kMig.size(), name.find('/') - kMig.size());
    if (auto found = by_uuid(machine, name); !found.empty())
      return found.front();
    return mig && accessible.size() == 1 ? std::optional(accessible.front()) : std::nullopt;
  };
  std::vector<std::optional<std::size_t>> gpus;
  for (const auto& name : names)
    gpus.push_back(gpu_of(name));
  return gpus;
}

} // namespace dist_train
