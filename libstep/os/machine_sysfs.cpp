// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/machine_sysfs.h"

#include "libstep/core/text.h"
#include "libstep/os/fd.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <unistd.h>

namespace dist_train {

namespace {

constexpr std::uint64_t kMaxRate = 1000000000; // Mb/s

std::string content(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4096> buffer{};
  auto got = fd ? read(fd.get(), buffer.data(), buffer.size()) : -1;
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

// Where a link points; "" if it is none.
std::string link_target(const std::string& path) {
  std::array<char, 512> buffer{};
  auto got = readlink(path.c_str(), buffer.data(), buffer.size());
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

// Names in a folder, sorted; none if it cannot be read.
std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  while (const dirent* entry = dir ? readdir(dir.get()) : nullptr)
    if (entry->d_name[0] != '.')
      names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// The value after "KEY:" or "KEY " at the beginning of a line.
std::string value_of(const std::string& text, std::string_view key) {
  for (auto line : split(text, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size())
      continue;
    line.remove_prefix(key.size());
    auto begin = line.find_first_not_of(" \t:");
    return begin == line.npos ? "" : std::string(line.substr(begin));
  }
  return "";
}

// Mb/s of "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)".
std::uint32_t parse_rate(const std::string& text) {
  double gigabits = 0;
  auto end = text.data() + text.size();
  if (std::from_chars(text.data(), end, gigabits).ec != std::errc() || !(gigabits > 0) ||
      gigabits > 1e6 || text.find("Gb/sec") == text.npos)
    return 0;
  return static_cast<std::uint32_t>(gigabits * 1000);
}

NicPort read_port(const std::string& folder, std::uint32_t number) {
  NicPort port;
  port.number = number;
  auto state = read_line_of(folder + "/state"); // "4: ACTIVE"
  if (!state.empty())
    port.state = state.starts_with("4") ? PortState::kActive : PortState::kDown;
  auto link = read_line_of(folder + "/link_layer");
  port.link = link == "InfiniBand" ? LinkLayer::kInfiniband
              : link == "Ethernet" ? LinkLayer::kEthernet
                                   : LinkLayer::kUnknown;
  port.rate = parse_rate(read_line_of(folder + "/rate"));
  return port;
}

void read_nvidia(Machine& machine, const std::string& root) {
  auto folder = root + "/proc/driver/nvidia/gpus";
  for (const auto& name : entries(folder)) {
    auto address = parse_pci_address(name);
    auto text = content(folder + "/" + name + "/information");
    auto minor = parse_number(value_of(text, "Device Minor"), kMaxId);
    for (auto& gpu : machine.gpus) {
      if (gpu.pci.address != address)
        continue;
      if (minor)
        gpu.minor = static_cast<std::uint32_t>(*minor);
      if (auto uuid = value_of(text, "GPU UUID"); uuid.starts_with("GPU-"))
        gpu.uuid = uuid;
    }
  }
}

// A processor of AMD's compute driver: a GPU, or one partition of it.
struct KfdNode {
  std::uint32_t number = 0;
  PciAddress address; // function 0; its bits number the partitions
  std::uint32_t partition = 0;
  std::uint64_t unique_id = 0; // 0: not known
};

// In the order in which ROCm counts them.
std::vector<KfdNode> kfd_nodes(const std::string& root) {
  std::vector<KfdNode> nodes;
  auto folder = root + "/sys/class/kfd/kfd/topology/nodes";
  for (const auto& name : entries(folder)) {
    auto text = content(folder + "/" + name + "/properties");
    auto number = parse_number(name, kMaxId);
    auto location = parse_number(value_of(text, "location_id"), 0xffff);
    auto domain = parse_number(value_of(text, "domain"), 0xffffffff);
    if (!number || !location || *location == 0)
      continue; // a CPU
    nodes.push_back(
        {static_cast<std::uint32_t>(*number),
         {static_cast<std::uint32_t>(domain.value_or(0)), static_cast<std::uint8_t>(*location >> 8),
          static_cast<std::uint8_t>((*location >> 3) & 31), 0},
         static_cast<std::uint32_t>(*location & 7),
         parse_number(value_of(text, "unique_id"), ~std::uint64_t{0}).value_or(0)});
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const KfdNode& a, const KfdNode& b) { return a.number < b.number; });
  return nodes;
}

std::string amd_uuid(std::uint64_t unique_id) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "GPU-%016llx",
                static_cast<unsigned long long>(unique_id));
  return text.data();
}

void read_amd(Machine& machine, const std::string& root) {
  auto nodes = kfd_nodes(root);
  std::map<PciAddress, std::uint32_t> partitions;
  for (const auto& node : nodes)
    ++partitions[node.address];
  for (const auto& [address, count] : partitions)
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
      if (machine.gpus[i].pci.address == address && machine.gpus[i].partitions == 1) {
        split_partitions(machine.gpus, i, count);
        break;
      }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (auto& gpu : machine.gpus)
      if (gpu.pci.address == nodes[i].address &&
          (gpu.partitions == 1 || gpu.partition == nodes[i].partition)) {
        gpu.order = static_cast<std::uint32_t>(i);
        if (nodes[i].unique_id != 0)
          gpu.uuid = amd_uuid(nodes[i].unique_id);
      }
}

std::vector<NicPort> rdma_ports(const std::string& name, const std::string& root) {
  std::vector<NicPort> ports;
  if (name.find('/') != name.npos)
    return ports;
  auto folder = root + "/sys/class/infiniband/" + name + "/ports";
  for (const auto& entry : entries(folder))
    if (auto number = parse_number(entry, 255))
      ports.push_back(read_port(folder + "/" + entry, static_cast<std::uint32_t>(*number)));
  return ports;
}

// The first interface that is up, else the first.
std::vector<NicPort> interface_port(const std::vector<std::string>& names,
                                    const std::string& root) {
  std::vector<NicPort> ports;
  for (const auto& name : names) {
    auto folder = root + "/sys/class/net/" + name;
    auto state = name.find('/') == name.npos ? read_line_of(folder + "/operstate") : "";
    if (state.empty())
      continue;
    NicPort port;
    port.link = LinkLayer::kEthernet;
    port.state = state == "up"        ? PortState::kActive
                 : state == "unknown" ? PortState::kUnknown
                                      : PortState::kDown;
    port.rate = static_cast<std::uint32_t>(
        parse_number(read_line_of(folder + "/speed"), kMaxRate).value_or(0)); // -1 where it is down
    if (port.state == PortState::kActive)
      return {port};
    if (ports.empty())
      ports.push_back(port);
  }
  return ports;
}

} // namespace

std::string read_line_of(const std::string& path) {
  auto text = content(path);
  return text.substr(0, text.find('\n'));
}

void split_partitions(std::vector<Gpu>& gpus, std::size_t index, std::uint32_t partitions) {
  if (partitions < 2)
    return;
  auto whole = gpus[index];
  whole.partitions = partitions;
  gpus[index] = whole;
  for (whole.partition = 1; whole.partition < partitions; ++whole.partition)
    gpus.insert(gpus.begin() + static_cast<std::ptrdiff_t>(index + whole.partition), whole);
}

void read_nics(Machine& machine, const std::string& root) {
  for (auto& nic : machine.nics) {
    auto ports =
        nic.rdma.empty() ? interface_port(nic.interfaces, root) : rdma_ports(nic.rdma, root);
    if (!ports.empty())
      nic.ports = std::move(ports);
    auto physical =
        link_target(root + "/sys/bus/pci/devices/" + to_text(nic.pci.address) + "/physfn");
    if (auto address = parse_pci_address(physical.substr(physical.rfind('/') + 1)))
      nic.physical = address;
  }
}

void read_gpu_identity(Machine& machine, const std::string& root) {
  read_nvidia(machine, root);
  read_amd(machine, root);
}

std::vector<std::size_t> accessible_gpus(const Machine& machine, const std::string& root) {
  std::vector<std::size_t> all, admitted;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    all.push_back(i);
    const auto& gpu = machine.gpus[i];
    std::string file = gpu.minor ? "/dev/nvidia" + std::to_string(*gpu.minor) : "";
    for (const auto& name : gpu.names)
      if (file.empty() && name.starts_with("renderD"))
        file = "/dev/dri/" + name;
    // The kernel asks the cgroup here, too.
    if (!file.empty() && access((root + file).c_str(), R_OK | W_OK) == 0)
      admitted.push_back(i);
  }
  return admitted.empty() ? all : admitted;
}

std::vector<std::string> device_list(const std::string& root) {
  auto list = entries(root + "/sys/class/infiniband");
  auto folder = root + "/sys/bus/pci/devices";
  for (const auto& name : entries(folder)) {
    auto pci_class = read_line_of(folder + "/" + name + "/class");
    if (pci_class.starts_with("0x03") || pci_class.starts_with("0x12"))
      list.push_back(name);
  }
  return list;
}

} // namespace dist_train
