// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/machine.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::uint16_t kAmazon = 0x1d0f;
constexpr std::uint16_t kHpe = 0x17db;
constexpr std::uint16_t kCisco = 0x1137;

PathClass by_numa(const IdSet& a, const IdSet& b) {
  if (a.empty() || b.empty())
    return PathClass::kUnknown;
  return intersection(a, b).empty() ? PathClass::kSys : PathClass::kNode;
}

} // namespace

PathClass path_class(const PciPlace& a, const PciPlace& b) {
  if (a.host_bridge != b.host_bridge)
    return by_numa(a.numa, b.numa);
  auto [left, right] =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  if (left == a.bridges.begin())
    return PathClass::kPhb;
  // A switch is one bridge above (its upstream port) and one below for each of its devices.
  bool one_switch = a.bridges.end() - left <= 1 && b.bridges.end() - right <= 1;
  return one_switch ? PathClass::kPix : PathClass::kPxb;
}

PathClass path_class(const IdSet& numa, const PciPlace& b) { return by_numa(numa, b.numa); }

Fabric fabric_of(const Nic& nic) {
  if (nic.vendor == kHpe)
    return Fabric::kSlingshot; // also where only its network interface shows
  if (nic.rdma.empty() || nic.vendor == kCisco)
    return Fabric::kNone; // usNIC is for one MPI
  if (nic.vendor == kAmazon)
    return Fabric::kEfa;
  for (const auto& port : nic.ports)
    if (port.link != LinkLayer::kUnknown)
      return port.link == LinkLayer::kInfiniband ? Fabric::kInfiniband : Fabric::kRoce;
  return nic.pci_class == 0x0200 ? Fabric::kRoce : Fabric::kInfiniband;
}

std::vector<std::uint32_t> usable_ports(const Nic& nic) {
  if (nic.ports.empty())
    return {1};
  for (auto state : {PortState::kActive, PortState::kUnknown}) {
    std::vector<std::uint32_t> numbers;
    std::optional<LinkLayer> link;
    for (const auto& port : nic.ports)
      if (port.state == state && port.link == link.value_or(port.link)) {
        numbers.push_back(port.number);
        link = port.link;
      }
    if (!numbers.empty())
      return numbers;
  }
  return {};
}

std::uint32_t usable_port(const Nic& nic) {
  auto ports = usable_ports(nic);
  return ports.empty() ? 0 : ports.front();
}

IdSet all_cpus(const Machine& machine) {
  IdSet cpus;
  for (const auto& core : machine.cores)
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

IdSet numa_of(const Machine& machine, const IdSet& cpus) {
  IdSet ordinary, other;
  for (const auto& node : machine.numa_nodes)
    if (!intersection(node.cpus, cpus).empty())
      (node.memory == Memory::kDram ? ordinary : other).push_back(node.id);
  return ordinary.empty() ? other : ordinary;
}

std::string nic_name(const Nic& nic) {
  if (!nic.rdma.empty())
    return nic.rdma;
  return nic.interfaces.empty() ? to_text(nic.pci.address) : nic.interfaces.front();
}

const char* to_text(PathClass path) {
  switch (path) {
  case PathClass::kPix:
    return "PIX";
  case PathClass::kPxb:
    return "PXB";
  case PathClass::kPhb:
    return "PHB";
  case PathClass::kNode:
    return "NODE";
  case PathClass::kSys:
    return "SYS";
  case PathClass::kUnknown:
    break;
  }
  return "?";
}

const char* to_text(Fabric fabric) {
  switch (fabric) {
  case Fabric::kInfiniband:
    return "InfiniBand";
  case Fabric::kRoce:
    return "RoCE";
  case Fabric::kEfa:
    return "EFA";
  case Fabric::kSlingshot:
    return "Slingshot";
  case Fabric::kNone:
    break;
  }
  return "Ethernet";
}

const char* to_text(PortState state) {
  return state == PortState::kActive ? "active" : state == PortState::kDown ? "down" : "unknown";
}

const char* to_text(LinkLayer link) {
  return link == LinkLayer::kInfiniband ? "infiniband"
         : link == LinkLayer::kEthernet ? "ethernet"
                                        : "unknown";
}

const char* to_text(Memory memory) {
  switch (memory) {
  case Memory::kOther:
    return "other";
  case Memory::kGpu:
    return "gpu";
  case Memory::kNoCpus:
    return "no-cpus";
  case Memory::kDram:
    break;
  }
  return "dram";
}

} // namespace dist_train
