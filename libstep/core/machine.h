// SPDX-License-Identifier: BSD-3-Clause
// A compute node as placement sees it: cores, memory, GPUs, NICs, and how near they are to each
// other. A plain value; libstep/os/machine.h reads it from hardware or hwloc's XML, machine_text.h
// from and to text.
#pragma once

#include "libstep/core/id_set.h"
#include "libstep/core/pci.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dist_train {

// What a NUMA node's memory is. Only kDram is for a program's ordinary pages.
enum class Memory { kDram, kOther, kGpu, kNoCpus };

struct NumaNode {
  std::uint32_t id = 0; // the kernel's number; they may have gaps
  std::uint32_t package = 0;
  IdSet cpus;
  Memory memory = Memory::kDram;
  bool operator==(const NumaNode&) const = default;
};

// A physical core; its CPUs are its hardware threads.
struct Core {
  IdSet cpus;
  std::uint32_t package = 0;
  std::uint32_t cache = 0; // number of the last-level cache it shares
  bool operator==(const Core&) const = default;
};

// Where a PCI function hangs in the machine.
struct PciPlace {
  PciAddress address;
  std::uint32_t host_bridge = 0;   // number of the host bridge
  std::vector<PciAddress> bridges; // from the host bridge down to the function
  // The part of the machine next to it: an L3's cores, a NUMA node, a package. Both are empty where
  // the firmware does not say; that is "unknown", never node 0.
  IdSet cpus;
  IdSet numa;
  bool operator==(const PciPlace&) const = default;
};

// A device a training step can compute on. One PCI function may be several (partition modes), so
// address and partition together are its identity.
struct Gpu {
  PciPlace pci;
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t partition = 0;
  std::uint32_t partitions = 1;
  std::optional<std::uint32_t> minor; // N of /dev/nvidiaN, not an index
  std::optional<std::uint32_t> order; // as its runtime counts, where that is not the PCI order
  std::string uuid;                   // "GPU-..."; "" if not known
  std::vector<std::string> names;     // what the system calls it: card1, nvml0, ...
  bool operator==(const Gpu&) const = default;
};

enum class PortState { kUnknown, kActive, kDown };
enum class LinkLayer { kUnknown, kInfiniband, kEthernet };

struct NicPort {
  std::uint32_t number = 1;
  PortState state = PortState::kUnknown;
  LinkLayer link = LinkLayer::kUnknown;
  std::uint32_t rate = 0; // Mb/s; 0 if not known
  bool operator==(const NicPort&) const = default;
};

// A network function: an RDMA device, network interfaces, or both.
struct Nic {
  PciPlace pci;
  std::optional<PciAddress> physical; // whose virtual function it is
  std::uint16_t pci_class = 0;        // 0x0207
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t pci_rate = 0; // of its PCIe link in Mb/s; 0 if not known
  std::string rdma;           // "mlx5_0"; "" without an RDMA device
  std::vector<std::string> interfaces;
  std::vector<NicPort> ports; // of the RDMA device, else of the first interface that is up
  bool operator==(const Nic&) const = default;
};

struct Machine {
  std::string name;                 // host or product, for people; may be empty
  std::vector<NumaNode> numa_nodes; // by id
  std::vector<Core> cores;          // neighbours next to each other
  IdSet allowed_cpus;               // what whoever looked may use
  IdSet allowed_numa;
  std::vector<Gpu> gpus; // by address and partition: the order of CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::vector<Nic> nics; // by address
  bool operator==(const Machine&) const = default;
};

// How two PCI functions reach each other, nearest first, as `nvidia-smi topo -m` names it: one PCIe
// switch, several, through the host bridge, between host bridges of a NUMA node, between NUMA
// nodes; kUnknown where the machine does not say.
enum class PathClass { kPix, kPxb, kPhb, kNode, kSys, kUnknown };

PathClass path_class(const PciPlace& a, const PciPlace& b);

// From a part of the machine (its NUMA nodes) to a PCI function: kNode, kSys or kUnknown.
PathClass path_class(const IdSet& numa, const PciPlace& b);

// What carries a NIC's traffic; devices of different fabrics do not reach each other.
enum class Fabric { kNone, kInfiniband, kRoce, kEfa, kSlingshot };

Fabric fabric_of(const Nic& nic);

// The ports that may carry a NIC's traffic: the active ones, else those whose state is not known
// (1 where there are none), and of them those with the link layer of the first. None if all are
// down.
std::vector<std::uint32_t> usable_ports(const Nic& nic);

// The first of them; 0 without one.
std::uint32_t usable_port(const Nic& nic);

// All CPUs of all cores, ascending.
IdSet all_cpus(const Machine& machine);

// NUMA nodes with ordinary memory that hold some of these CPUs; those with other memory only where
// there are no ordinary ones (processors with nothing but fast memory).
IdSet numa_of(const Machine& machine, const IdSet& cpus);

// The RDMA device's name, else that of its first interface, else the PCI address.
std::string nic_name(const Nic& nic);

const char* to_text(PathClass path);
const char* to_text(Fabric fabric);
const char* to_text(PortState state);
const char* to_text(LinkLayer link);
const char* to_text(Memory memory);

} // namespace dist_train
