// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/placement_parts.h"

#include "libstep/core/placement.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <array>

namespace dist_train {

namespace {

constexpr std::size_t kFabrics = 5;
// A PCIe link with less than this part of the others' rate is that of a management or storage port.
constexpr std::uint32_t kSlowLink = 4;

bool usable(const Nic& nic) { return fabric_of(nic) != Fabric::kNone && usable_port(nic) != 0; }

// A virtual function beside its physical one moves nothing that this does not.
bool doubles(const Machine& machine, const Nic& nic) {
  return nic.physical && std::any_of(machine.nics.begin(), machine.nics.end(), [&](const Nic& n) {
           return n.pci.address == *nic.physical && usable(n);
         });
}

// What the NIC can move, Mb/s; 0 if not known.
std::uint32_t rate_of(const Nic& nic) {
  std::uint32_t rate = 0;
  for (const auto& port : nic.ports)
    if (port.state != PortState::kDown)
      rate = std::max(rate, port.rate);
  return rate > 0 && nic.pci_rate > 0 ? std::min(rate, nic.pci_rate) : rate;
}

PathClass path_to(const NicSeeker& seeker, const Nic& nic) {
  return seeker.pci ? path_class(*seeker.pci, nic.pci) : path_class(seeker.numa, nic.pci);
}

using Indices = std::vector<std::size_t>;

// The fastest of them, where the rates of all are known.
Indices fastest(const Machine& machine, const Indices& nics) {
  std::uint32_t best = 0;
  for (auto i : nics) {
    if (rate_of(machine.nics[i]) == 0)
      return nics;
    best = std::max(best, rate_of(machine.nics[i]));
  }
  Indices kept;
  for (auto i : nics)
    if (rate_of(machine.nics[i]) == best)
      kept.push_back(i);
  return kept;
}

Indices nearest(const Machine& machine, const NicSeeker& seeker, const Indices& nics) {
  auto best = PathClass::kUnknown;
  for (auto i : nics)
    best = std::min(best, path_to(seeker, machine.nics[i]));
  Indices kept;
  for (auto i : nics)
    if (path_to(seeker, machine.nics[i]) == best)
      kept.push_back(i);
  return kept;
}

Indices of_fabric(const Machine& machine, const Indices& nics, Fabric fabric) {
  Indices kept;
  for (auto i : nics)
    if (fabric_of(machine.nics[i]) == fabric)
      kept.push_back(i);
  return kept;
}

// The fabric of the step: the one that is nearest to most of those who ask, then the one with most
// devices, then InfiniBand before Ethernet.
Fabric choose_fabric(const Machine& machine, const std::vector<NicSeeker>& seekers,
                     const Indices& nics) {
  std::array<std::pair<std::size_t, std::size_t>, kFabrics> votes{};
  auto index = [&](std::size_t nic) {
    return static_cast<std::size_t>(fabric_of(machine.nics[nic]));
  };
  auto quick = fastest(machine, nics);
  for (const auto& seeker : seekers) {
    std::array<bool, kFabrics> near{};
    for (auto i : nearest(machine, seeker, quick))
      near[index(i)] = true;
    for (std::size_t f = 0; f < kFabrics; ++f)
      votes[f].first += near[f];
  }
  for (auto i : nics)
    ++votes[index(i)].second;
  auto most = std::max_element(votes.begin(), votes.end());
  return most->second == 0 ? Fabric::kNone : static_cast<Fabric>(most - votes.begin());
}

bool much_slower(const Machine& machine, std::size_t nic, const Indices& chosen) {
  const auto& one = machine.nics[nic];
  return !chosen.empty() && std::all_of(chosen.begin(), chosen.end(), [&](std::size_t i) {
    const auto& other = machine.nics[i];
    bool slow_link = one.pci_rate > 0 && one.pci_rate < other.pci_rate / kSlowLink;
    return slow_link || (rate_of(one) > 0 && rate_of(one) < rate_of(other));
  });
}

// Each of `count` seekers with the same NICs gets its part of them: several where there are more
// NICs, one where there are fewer, so that none serves more than it must.
Indices part(const Indices& nics, std::size_t position, std::size_t count) {
  auto first = position * nics.size() / count;
  auto last = std::max(first + 1, (position + 1) * nics.size() / count);
  return {nics.begin() + static_cast<std::ptrdiff_t>(first),
          nics.begin() + static_cast<std::ptrdiff_t>(last)};
}

Indices nearer_down(const Machine& machine, const NicSeeker& seeker, PathClass path) {
  Indices down;
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    if (fabric_of(machine.nics[i]) != Fabric::kNone && usable_port(machine.nics[i]) == 0 &&
        path_to(seeker, machine.nics[i]) < path)
      down.push_back(i);
  return down;
}

} // namespace

NicPlan choose_nics(const Machine& machine, const std::vector<NicSeeker>& seekers,
                    const std::vector<std::size_t>& barred) {
  NicPlan plan;
  Indices all;
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    if (usable(machine.nics[i])) {
      bool leave =
          doubles(machine, machine.nics[i]) || std::binary_search(barred.begin(), barred.end(), i);
      (leave ? plan.left_out : all).push_back(i);
    }
  plan.fabric = choose_fabric(machine, seekers, all);
  auto ours = of_fabric(machine, all, plan.fabric);
  auto quick = fastest(machine, ours);

  std::vector<Indices> best;
  Indices chosen;
  for (const auto& seeker : seekers) {
    best.push_back(nearest(machine, seeker, quick));
    chosen.insert(chosen.end(), best.back().begin(), best.back().end());
  }
  for (auto i : all) {
    bool leave = fabric_of(machine.nics[i]) != plan.fabric ||
                 much_slower(machine, i, seekers.empty() ? quick : chosen);
    (leave ? plan.left_out : plan.usable).push_back(i);
  }
  std::sort(plan.left_out.begin(), plan.left_out.end());
  for (std::size_t s = 0; s < seekers.size(); ++s) {
    NicChoice choice;
    choice.equally_good = best[s].size();
    if (!best[s].empty()) {
      auto before =
          std::count(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(s), best[s]);
      choice.path = path_to(seekers[s], machine.nics[best[s].front()]);
      choice.nics = part(best[s], static_cast<std::size_t>(before),
                         static_cast<std::size_t>(std::count(best.begin(), best.end(), best[s])));
      choice.nearer_down = nearer_down(machine, seekers[s], choice.path);
    }
    plan.choices.push_back(std::move(choice));
  }
  return plan;
}

std::vector<std::size_t> barred_nics(const Machine& machine, std::string_view list) {
  std::vector<std::size_t> barred;
  if (list == "auto")
    return barred;
  auto parts = split(list, '+');
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    auto names = machine.nics[i].interfaces;
    names.push_back(machine.nics[i].rdma);
    auto begins = [&](std::string_view part) {
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return name.starts_with(part); });
    };
    bool wanted = std::all_of(parts.begin(), parts.end(),
                              [](std::string_view part) { return part.starts_with('^'); });
    bool excluded = list == "none";
    for (auto part : parts) {
      wanted = wanted || (!part.starts_with('^') && begins(part));
      excluded = excluded || (part.starts_with('^') && begins(part.substr(1)));
    }
    if (!wanted || excluded)
      barred.push_back(i);
  }
  return barred;
}

} // namespace dist_train
