// SPDX-License-Identifier: BSD-3-Clause
// From hwloc's objects to a Machine.
#include "libstep/core/machine_text.h"
#include "libstep/core/text.h"
#include "libstep/os/machine_hwloc.h"
#include "libstep/os/machine_sysfs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace dist_train {

namespace {

using PciAttributes = decltype(hwloc_obj_attr_u::pcidev);

constexpr std::uint32_t kNoHostBridge = 0x40000000; // and more: devices that hang on none
constexpr unsigned kMaxPorts = 16;
constexpr double kMegabitsPerGigabyte = 8000;

IdSet id_set_of(hwloc_const_bitmap_t bitmap) {
  IdSet set;
  if (!bitmap || hwloc_bitmap_weight(bitmap) < 0)
    return set; // infinite: says nothing
  for (int id = hwloc_bitmap_first(bitmap); id >= 0; id = hwloc_bitmap_next(bitmap, id))
    set.push_back(static_cast<std::uint32_t>(id));
  return set;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value ? value : "";
}

std::uint32_t package_of(hwloc_topology_t topology, hwloc_obj_t object) {
  auto package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  return package ? package->logical_index : 0;
}

Memory memory_of(const hwloc_obj& node) {
  std::string_view kind = node.subtype ? node.subtype : "";
  if (kind == "GPUMemory")
    return Memory::kGpu;
  if (hwloc_bitmap_iszero(node.cpuset))
    return Memory::kNoCpus;
  return kind.empty() || kind == "DRAM" ? Memory::kDram : Memory::kOther;
}

void add_cores(hwloc_topology_t topology, Machine& machine) {
  // Descriptions without cores have at least CPUs.
  auto type =
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    Core out{id_set_of(core->cpuset), package_of(topology, core), core->logical_index};
    if (out.cpus.empty())
      continue; // offline
    for (auto cache : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE})
      if (auto shared = hwloc_get_ancestor_obj_by_type(topology, cache, core)) {
        out.cache = shared->logical_index;
        break;
      }
    machine.cores.push_back(std::move(out));
  }
}

// Nodes without CPUs (of a GPU, of memory behind CXL) get those next to them from hwloc, and names
// for what they are from recent releases only. CPUs have one node of ordinary memory: the first.
void name_borrowed_cpus(std::vector<NumaNode>& nodes) {
  IdSet owned;
  for (auto& node : nodes) {
    if (node.memory != Memory::kDram)
      continue;
    if (!intersection(owned, node.cpus).empty())
      node.memory = Memory::kNoCpus;
    owned = united(owned, node.cpus);
  }
}

void add_numa_nodes(hwloc_topology_t topology, Machine& machine) {
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    machine.numa_nodes.push_back(
        {node->os_index, package_of(topology, node), id_set_of(node->cpuset), memory_of(*node)});
  sort_devices(machine);
  name_borrowed_cpus(machine.numa_nodes);
}

PciAddress address_of(const PciAttributes& pci) {
  return {static_cast<std::uint32_t>(pci.domain), pci.bus, pci.dev, pci.func};
}

PciPlace place_of(hwloc_topology_t topology, hwloc_obj_t device, const Machine& machine) {
  PciPlace place;
  place.address = address_of(device->attr->pcidev);
  place.host_bridge = kNoHostBridge + device->logical_index;
  for (auto above = device->parent; above && above->type == HWLOC_OBJ_BRIDGE; above = above->parent)
    if (above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
      place.bridges.push_back(address_of(above->attr->bridge.upstream.pci));
    else
      place.host_bridge = above->logical_index;
  std::reverse(place.bridges.begin(), place.bridges.end());
  // On the whole machine hangs what the firmware gives no place, unless there is just one.
  auto part = hwloc_get_non_io_ancestor_obj(topology, device);
  bool whole = hwloc_bitmap_isequal(part->cpuset, hwloc_get_root_obj(topology)->cpuset);
  auto nodes = std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                             [](const NumaNode& node) { return node.memory == Memory::kDram; });
  if (!whole || nodes <= 1) {
    place.cpus = id_set_of(part->cpuset);
    place.numa = numa_of(machine, place.cpus);
  }
  return place;
}

// What a training step can compute on: NVIDIA's and AMD's display and accelerator functions without
// the graphics of server boards and processors, Intel's and Habana's data-centre ones.
bool is_gpu(const PciAttributes& pci) {
  constexpr std::uint16_t kVga = 0x0300, k3d = 0x0302, kDisplay = 0x0380, kAccelerator = 0x1200;
  constexpr std::uint16_t kFirstDiscreteAmd = 0x6600; // VGA functions below are such graphics
  auto c = pci.class_id;
  switch (pci.vendor_id) {
  case 0x10de:
    return c == kVga || c == k3d;
  case 0x1002:
    return c == kDisplay || c == kAccelerator || (c == kVga && pci.device_id >= kFirstDiscreteAmd);
  case 0x8086:
    return c == kDisplay && pci.bus != 0; // on bus 0 it is a processor's own
  case 0x1da3:
    return c == kAccelerator;
  default:
    return false;
  }
}

enum class Device { kOther, kNetwork, kRdma };

Device device_kind(const hwloc_obj& device) {
#if HWLOC_API_VERSION >= 0x00030000
  auto types = device.attr->osdev.types;
  return types & HWLOC_OBJ_OSDEV_OPENFABRICS ? Device::kRdma
         : types & HWLOC_OBJ_OSDEV_NETWORK   ? Device::kNetwork
                                             : Device::kOther;
#else
  auto type = device.attr->osdev.type;
  return type == HWLOC_OBJ_OSDEV_OPENFABRICS ? Device::kRdma
         : type == HWLOC_OBJ_OSDEV_NETWORK   ? Device::kNetwork
                                             : Device::kOther;
#endif
}

// Named system devices of a PCI function.
std::vector<hwloc_obj_t> system_devices(hwloc_obj_t function) {
  std::vector<hwloc_obj_t> devices;
  for (auto child = function->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->name)
      devices.push_back(child);
  return devices;
}

void add_gpu(hwloc_obj_t function, PciPlace place, Machine& machine) {
  Gpu gpu;
  gpu.pci = std::move(place);
  gpu.vendor = function->attr->pcidev.vendor_id;
  gpu.device = function->attr->pcidev.device_id;
  std::uint32_t partitions = 0;
  for (auto device : system_devices(function)) {
    gpu.names.emplace_back(device->name);
    partitions += gpu.names.back().starts_with("rsmi");
    if (auto uuid = info_of(device, "NVIDIAUUID"); !uuid.empty())
      gpu.uuid = uuid;
  }
  machine.gpus.push_back(std::move(gpu));
  split_partitions(machine.gpus, machine.gpus.size() - 1, partitions);
}

std::vector<NicPort> ports_of(hwloc_obj_t device) {
  std::vector<NicPort> ports;
  for (unsigned number = 1; number <= kMaxPorts; ++number) {
    auto state = info_of(device, ("Port" + std::to_string(number) + "State").c_str());
    if (!state.empty()) // as the verbs library counts: 4 is ACTIVE
      ports.push_back(
          {number, state == "4" ? PortState::kActive : PortState::kDown, LinkLayer::kUnknown, 0});
  }
  return ports;
}

void add_nics(hwloc_obj_t function, const PciPlace& place, Machine& machine) {
  const auto& pci = function->attr->pcidev;
  Nic nic;
  nic.pci = place;
  nic.pci_class = pci.class_id;
  nic.vendor = pci.vendor_id;
  nic.device = pci.device_id;
  if (pci.linkspeed > 0 && pci.linkspeed < 1e5f)
    nic.pci_rate = static_cast<std::uint32_t>(std::lround(pci.linkspeed * kMegabitsPerGigabyte));
  std::vector<hwloc_obj_t> rdma;
  for (auto device : system_devices(function)) {
    if (device_kind(*device) == Device::kNetwork)
      nic.interfaces.emplace_back(device->name);
    else if (device_kind(*device) == Device::kRdma)
      rdma.push_back(device);
  }
  if (rdma.empty() && !nic.interfaces.empty())
    machine.nics.push_back(nic);
  for (auto device : rdma) {
    nic.rdma = device->name;
    nic.ports = ports_of(device);
    machine.nics.push_back(nic);
  }
}

} // namespace

Machine machine_of(hwloc_topology_t topology) {
  Machine machine;
  auto root = hwloc_get_root_obj(topology);
  for (const char* name : {"HostName", "DMIProductName"})
    if (machine.name.empty())
      machine.name = info_of(root, name);
  machine.allowed_cpus = id_set_of(hwloc_topology_get_allowed_cpuset(topology));
  machine.allowed_numa = id_set_of(hwloc_topology_get_allowed_nodeset(topology));
  add_cores(topology, machine);
  add_numa_nodes(topology, machine);
  for (hwloc_obj_t function = nullptr;
       (function = hwloc_get_next_pcidev(topology, function)) != nullptr;) {
    if (!is_gpu(function->attr->pcidev)) {
      if (function->io_first_child)
        add_nics(function, place_of(topology, function, machine), machine);
      continue;
    }
    add_gpu(function, place_of(topology, function, machine), machine);
  }
  sort_devices(machine);
  return machine;
}

} // namespace dist_train
