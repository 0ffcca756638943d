// SPDX-License-Identifier: BSD-3-Clause
// Machines nobody has thought of.
#include "libstep/core/machine_text.h"
#include "tests/placement/support.h"

#include <algorithm>

namespace dist_train {

namespace {

class Maker {
public:
  explicit Maker(std::mt19937& random) : random_(random) {}

  Machine make() {
    make_cpus();
    make_memory();
    for (auto count = below(17); count > 0; --count)
      add_gpu();
    for (auto count = below(11); count > 0; --count)
      add_nic();
    sort_devices(machine_);
    machine_.allowed_cpus = all_cpus(machine_);
    return std::move(machine_);
  }

private:
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  template <typename T>
  T any(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<std::uint32_t>(values.size())));
  }

  // Threads next to each other or a core apart, some cores with one thread only, some CPUs offline.
  void make_cpus() {
    auto packages = any({1u, 1u, 2u, 2u, 4u}), nodes = any({1u, 1u, 2u, 4u});
    auto cores = 1 + below(12), threads = any({1u, 1u, 2u, 2u, 4u, 8u});
    auto total = packages * nodes * cores;
    bool adjacent = one_in(2), small = one_in(4), offline = one_in(4);
    auto gap = any({1u, 1u, 8u}); // in the numbers of nodes
    for (std::uint32_t c = 0; c < total; ++c) {
      Core core{{}, c / (nodes * cores), c / std::max(1u, cores / 2)};
      for (std::uint32_t t = 0; t < (small && c % 2 == 1 ? 1 : threads); ++t)
        if (!(offline && one_in(5)))
          core.cpus.push_back(adjacent ? c * threads + t : t * total + c);
      if (c % cores == 0)
        machine_.numa_nodes.push_back({c / cores * gap, core.package, {}, Memory::kDram});
      auto& node = machine_.numa_nodes.back();
      node.cpus = united(node.cpus, core.cpus);
      if (!core.cpus.empty())
        machine_.cores.push_back(std::move(core));
    }
    if (machine_.cores.empty())
      machine_.cores.push_back({{0}, 0, 0});
    ordinary_ = machine_.numa_nodes;
  }

  void make_memory() {
    for (const auto& node : ordinary_)
      if (one_in(6))
        machine_.numa_nodes.push_back({node.id + 240, node.package, one_in(2) ? node.cpus : IdSet{},
                                       any({Memory::kOther, Memory::kGpu, Memory::kNoCpus})});
    for (const auto& node : ordinary_)
      if (machine_.allowed_numa.empty() || !one_in(10))
        machine_.allowed_numa.push_back(node.id);
  }

  PciPlace place() {
    PciPlace place;
    auto bus = static_cast<std::uint8_t>(devices_ * 7 % 256);
    place.address = {any({0u, 0u, 1u, 0x10001u}) + devices_ * 16, bus, 0, 0};
    ++devices_;
    const auto& node = ordinary_[below(static_cast<std::uint32_t>(ordinary_.size()))];
    place.host_bridge = node.id * 2 + below(2);
    for (auto depth = below(4); depth > 0;
         --depth) // few of them, so that paths have some in common
      place.bridges.push_back({place.host_bridge, static_cast<std::uint8_t>(depth),
                               static_cast<std::uint8_t>(below(2)), 0});
    if (one_in(12))
      return place; // the firmware does not say
    place.cpus = node.cpus;
    if (one_in(4)) // a cache of the node
      place.cpus.resize((place.cpus.size() + 1) / 2);
    if (one_in(6)) // the package
      for (const auto& other : ordinary_)
        if (other.package == node.package)
          place.cpus = united(place.cpus, other.cpus);
    place.numa = numa_of(machine_, place.cpus);
    return place;
  }

  void add_gpu() {
    Gpu gpu;
    gpu.pci = place();
    gpu.vendor = any<std::uint16_t>({0x10de, 0x1002});
    gpu.partitions = one_in(5) ? 1 + below(3) : 1;
    for (gpu.partition = 0; gpu.partition < gpu.partitions; ++gpu.partition)
      machine_.gpus.push_back(gpu);
  }

  void add_nic() {
    Nic nic;
    nic.pci = place();
    nic.vendor = any<std::uint16_t>({0x15b3, 0x15b3, 0x15b3, 0x1d0f, 0x17db, 0x8086});
    nic.pci_class = any<std::uint16_t>({0x0207, 0x0207, 0x0200, 0x0208});
    nic.interfaces.push_back("if" + std::to_string(devices_));
    if (!one_in(4))
      nic.rdma = "rdma" + std::to_string(devices_);
    if (!machine_.nics.empty() && one_in(5))
      nic.physical = machine_.nics.front().pci.address;
    for (std::uint32_t port = 1; port <= below(3); ++port)
      nic.ports.push_back(
          {port,
           any({PortState::kActive, PortState::kActive, PortState::kDown, PortState::kUnknown}),
           any({LinkLayer::kUnknown, LinkLayer::kInfiniband, LinkLayer::kEthernet}),
           any({0u, 100000u, 400000u})});
    machine_.nics.push_back(std::move(nic));
  }

  std::mt19937& random_;
  Machine machine_;
  std::vector<NumaNode> ordinary_;
  std::uint32_t devices_ = 0;
};

} // namespace

Machine random_machine(std::mt19937& random) { return Maker(random).make(); }

} // namespace dist_train
