// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/machine_text.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace dist_train {

namespace {

constexpr std::array kMemories{Memory::kDram, Memory::kOther, Memory::kGpu, Memory::kNoCpus};
constexpr std::array kStates{PortState::kUnknown, PortState::kActive, PortState::kDown};
constexpr std::array kLinks{LinkLayer::kUnknown, LinkLayer::kInfiniband, LinkLayer::kEthernet};

// More than any node has, and few enough that a hostile file costs neither memory nor time.
constexpr std::uint32_t kMaxCpus = 16384;
constexpr std::size_t kMaxDevices = 1024; // GPUs, NICs and NUMA nodes, of each

// One line taken apart: the words before the first KEY=VALUE, and the pairs in order.
struct Line {
  std::string_view kind;
  std::vector<std::string_view> words;
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
};

Line take_apart(std::string_view text) {
  Line line;
  for (auto part : split(text, ' ')) {
    if (part.empty())
      continue;
    auto equals = part.find('=');
    if (line.kind.empty())
      line.kind = part;
    else if (equals == part.npos)
      line.words.push_back(part);
    else
      line.pairs.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return line;
}

std::optional<std::uint16_t> parse_hex4(std::string_view text) {
  std::uint32_t value = 0;
  if (text.size() != 4)
    return std::nullopt;
  for (char c : text) {
    auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos)
      return std::nullopt;
    value = value * 16 + static_cast<std::uint32_t>(digit);
  }
  return static_cast<std::uint16_t>(value);
}

template <typename Value, std::size_t kCount>
bool read_word(std::string_view text, const std::array<Value, kCount>& values, Value& out) {
  for (auto value : values)
    if (text == to_text(value)) {
      out = value;
      return true;
    }
  return false;
}

bool read_number(std::string_view text, std::uint32_t& out) {
  auto number = parse_number(text, kMaxId);
  out = static_cast<std::uint32_t>(number.value_or(0));
  return number.has_value();
}

bool read_set(std::string_view text, IdSet& out) {
  auto set = parse_id_set(text);
  if (!set || (!set->empty() && set->back() >= kMaxCpus))
    return false;
  out = *std::move(set);
  return true;
}

bool read_ids(std::string_view text, std::uint16_t& vendor, std::uint16_t& device) {
  auto first = parse_hex4(text.substr(0, 4)),
       second = parse_hex4(text.substr(std::min(text.size(), std::size_t{5})));
  if (!first || !second || text[4] != ':')
    return false;
  vendor = *first;
  device = *second;
  return true;
}

bool read_names(std::string_view text, std::vector<std::string>& out) {
  for (auto part : split(text, ','))
    out.emplace_back(part);
  return !out.empty();
}

bool read_bridges(std::string_view text, std::vector<PciAddress>& out) {
  for (auto part : split(text, '/')) {
    auto address = parse_pci_address(part);
    if (!address)
      return false;
    out.push_back(*address);
  }
  return !out.empty();
}

bool read_port(std::string_view text, std::vector<NicPort>& out) {
  auto parts = split(text, ':');
  NicPort port;
  if (parts.size() != 4 || !read_number(parts[0], port.number) ||
      !read_word(parts[1], kStates, port.state) || !read_word(parts[2], kLinks, port.link) ||
      !read_number(parts[3], port.rate))
    return false;
  out.push_back(port);
  return true;
}

bool read_partition(std::string_view text, Gpu& gpu) {
  auto slash = text.find('/');
  return slash != text.npos && read_number(text.substr(0, slash), gpu.partition) &&
         read_number(text.substr(slash + 1), gpu.partitions) && gpu.partition < gpu.partitions;
}

bool read_place(std::string_view key, std::string_view value, PciPlace& place) {
  if (key == "host")
    return read_number(value, place.host_bridge);
  if (key == "bridges")
    return read_bridges(value, place.bridges);
  return key == "numa" ? read_set(value, place.numa) : key == "cpus" && read_set(value, place.cpus);
}

bool read_pair(std::string_view key, std::string_view value, Gpu& gpu) {
  if (key == "id")
    return read_ids(value, gpu.vendor, gpu.device);
  if (key == "partition")
    return read_partition(value, gpu);
  if (key == "minor")
    return read_number(value, gpu.minor.emplace());
  if (key == "order")
    return read_number(value, gpu.order.emplace());
  if (key == "uuid") {
    gpu.uuid = value;
    return !value.empty();
  }
  return key == "names" ? read_names(value, gpu.names) : read_place(key, value, gpu.pci);
}

bool read_pair(std::string_view key, std::string_view value, Nic& nic) {
  if (key == "id")
    return read_ids(value, nic.vendor, nic.device);
  if (key == "class") {
    auto pci_class = parse_hex4(value);
    nic.pci_class = pci_class.value_or(0);
    return pci_class.has_value();
  }
  if (key == "physical")
    return (nic.physical = parse_pci_address(value)).has_value();
  if (key == "pci_rate")
    return read_number(value, nic.pci_rate);
  if (key == "rdma") {
    nic.rdma = value;
    return !value.empty();
  }
  if (key == "net")
    return read_names(value, nic.interfaces);
  return key == "port" ? read_port(value, nic.ports) : read_place(key, value, nic.pci);
}

bool read_pair(std::string_view key, std::string_view value, NumaNode& node) {
  if (key == "package")
    return read_number(value, node.package);
  return key == "cpus" ? read_set(value, node.cpus)
                       : key == "memory" && read_word(value, kMemories, node.memory);
}

bool read_pair(std::string_view key, std::string_view value, Core& core) {
  return key == "package" ? read_number(value, core.package)
                          : key == "cache" && read_number(value, core.cache);
}

bool read_pair(std::string_view key, std::string_view value, Machine& machine) {
  return key == "cpus" ? read_set(value, machine.allowed_cpus)
                       : key == "numa" && read_set(value, machine.allowed_numa);
}

// What is wrong with a line; empty if nothing.
template <typename Value>
std::string read_pairs(const Line& line, Value& value) {
  for (const auto& [key, text] : line.pairs)
    if (!read_pair(key, text, value))
      return "cannot read " + quoted(std::string(key) + "=" + std::string(text)) + " of a " +
             std::string(line.kind) + " line";
  return "";
}

template <typename Device>
std::string read_device(const Line& line, std::vector<Device>& devices) {
  if (devices.size() == kMaxDevices)
    return "more than " + std::to_string(kMaxDevices) + " " + std::string(line.kind) + " lines";
  Device device;
  auto address = line.words.size() == 1 ? parse_pci_address(line.words[0]) : std::nullopt;
  if (!address)
    return "a " + std::string(line.kind) + " line wants one PCI address like 0000:1b:00.0";
  device.pci.address = *address;
  auto wrong = read_pairs(line, device);
  devices.push_back(std::move(device));
  return wrong;
}

std::string read_cores(const Line& line, Machine& machine) {
  Core core;
  auto wrong = read_pairs(line, core);
  std::size_t cpus = 0;
  for (const auto& known : machine.cores)
    cpus += known.cpus.size();
  for (auto text : line.words) {
    if (!read_set(text, core.cpus) || core.cpus.empty())
      return "not the CPUs of a core: " + quoted(text);
    if ((cpus += core.cpus.size()) > kMaxCpus)
      return "more than " + std::to_string(kMaxCpus) + " CPUs";
    machine.cores.push_back(core);
  }
  return wrong;
}

std::string read_numa(const Line& line, Machine& machine) {
  if (machine.numa_nodes.size() == kMaxDevices)
    return "more than " + std::to_string(kMaxDevices) + " numa lines";
  NumaNode node;
  if (line.words.size() != 1 || !read_number(line.words[0], node.id))
    return "a numa line wants one number";
  auto wrong = read_pairs(line, node);
  machine.numa_nodes.push_back(std::move(node));
  return wrong;
}

std::string read_line(const Line& line, Machine& machine) {
  if (line.kind == "name") {
    machine.name = line.words.empty() ? "" : std::string(line.words[0]);
    return line.words.size() > 1 ? "a name is one word" : "";
  }
  if (line.kind == "allowed")
    return read_pairs(line, machine);
  if (line.kind == "numa")
    return read_numa(line, machine);
  if (line.kind == "cores")
    return read_cores(line, machine);
  if (line.kind == "gpu")
    return read_device(line, machine.gpus);
  if (line.kind == "nic")
    return read_device(line, machine.nics);
  std::string near;
  if (auto guess = nearest(line.kind, {"name", "allowed", "numa", "cores", "gpu", "nic"}))
    near = "; did you mean '" + std::string(*guess) + "'?";
  return "unknown line " + quoted(line.kind) + near;
}

template <typename Value, typename Key>
std::optional<Value> found_twice(const std::vector<Value>& sorted, Key key) {
  auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                  [&](const auto& a, const auto& b) { return key(a) == key(b); });
  return twice == sorted.end() ? std::nullopt : std::optional(*twice);
}

// Cores may not share a CPU: a slice of whole cores would not be one task's own. A function may
// have several RDMA devices.
std::string check(const Machine& machine) {
  if (auto gpu = found_twice(machine.gpus,
                             [](const Gpu& g) { return std::pair(g.pci.address, g.partition); }))
    return "gpu " + to_text(gpu->pci.address) + " is there twice";
  if (auto node = found_twice(machine.numa_nodes, [](const NumaNode& n) { return n.id; }))
    return "numa " + std::to_string(node->id) + " is there twice";
  auto cpus = all_cpus(machine);
  if (cpus.empty())
    return "a machine without cores";
  auto twice = std::adjacent_find(cpus.begin(), cpus.end());
  return twice == cpus.end() ? "" : "CPU " + std::to_string(*twice) + " is in two cores";
}

// A device next to NUMA nodes is next to their CPUs, where it does not say otherwise.
void complete(PciPlace& place, const std::vector<NumaNode>& nodes) {
  if (place.cpus.empty())
    for (const auto& node : nodes)
      if (std::binary_search(place.numa.begin(), place.numa.end(), node.id))
        place.cpus = united(place.cpus, node.cpus);
}

} // namespace

void sort_devices(Machine& machine) {
  std::stable_sort(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& a, const Gpu& b) {
    return std::pair(a.pci.address, a.partition) < std::pair(b.pci.address, b.partition);
  });
  std::stable_sort(machine.nics.begin(), machine.nics.end(),
                   [](const Nic& a, const Nic& b) { return a.pci.address < b.pci.address; });
  std::stable_sort(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                   [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
}

Result<Machine> parse_machine_text(std::string_view text, std::string_view file) {
  Machine machine;
  std::size_t number = 0;
  bool headed = false;
  auto wrong_at = [&](const std::string& what) {
    return Error{
        std::string(file) + ":" + std::to_string(number) + ": " + what,
        "`dist-train topo --save DIR` writes this machine in that form; the README explains it"};
  };
  for (auto row : split(text, '\n')) {
    ++number;
    if (!row.empty() && row.back() == '\r')
      row.remove_suffix(1);
    auto line = take_apart(row);
    if (line.kind.empty() || line.kind.front() == '#')
      continue;
    if (std::any_of(row.begin(), row.end(), [](char c) { return c < ' ' || c >= 0x7f; }))
      return wrong_at("bytes that do not print: " + quoted(row));
    if (!headed) {
      if (line.kind != kMachineTextHead || line.words.size() != 1 || line.words[0] != "1")
        return wrong_at("the first line has to be '" + std::string(kMachineTextHead) + " 1', not " +
                        quoted(row));
      headed = true;
    } else if (auto wrong = read_line(line, machine); !wrong.empty()) {
      return wrong_at(wrong);
    }
  }
  sort_devices(machine);
  if (auto wrong = check(machine); !wrong.empty())
    return wrong_at(wrong);
  if (machine.allowed_cpus.empty())
    machine.allowed_cpus = all_cpus(machine);
  for (auto& gpu : machine.gpus)
    complete(gpu.pci, machine.numa_nodes);
  for (auto& nic : machine.nics)
    complete(nic.pci, machine.numa_nodes);
  if (machine.allowed_numa.empty())
    for (const auto& node : machine.numa_nodes)
      machine.allowed_numa.push_back(node.id);
  return machine;
}

} // namespace dist_train
