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

std::vector<VisibleGpu> visible_gpus(const Machine& machine, std::string_view list,
                                     const std::vector<std::size_t>& accessible) {
  constexpr std::string_view kMig = "MIG-";
  auto counted = in_order(machine, accessible);
  std::vector<VisibleGpu> visible;
  for (auto token : split(list, ',')) {
    if (token.empty() || token.front() == '-')
      break;
    VisibleGpu entry{std::string(token), std::nullopt};
    if (auto number = parse_number(token, kMaxId)) {
      if (*number < counted.size())
        entry.gpu = counted[*number];
    } else if (token.starts_with(kMig)) {
      auto parent = token.substr(kMig.size());
      auto found = by_uuid(machine, parent.substr(0, parent.find('/')));
      if (found.size() == 1)
        entry.gpu = found.front();
      else if (accessible.size() == 1)
        entry.gpu = accessible.front();
    } else if (auto found = by_uuid(machine, token); !found.empty()) {
      entry.gpu = found.front();
    }
    visible.push_back(std::move(entry));
  }
  return visible;
}

} // namespace dist_train
