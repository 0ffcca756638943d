// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/machine_text.h"

#include <array>
#include <cstdio>

namespace dist_train {

namespace {

std::string hex4(std::uint16_t value) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04x", value);
  return text.data();
}

// A name from outside in one word of the form.
std::string word(std::string_view name) {
  std::string text;
  for (char c : name)
    text += c > ' ' && c < 0x7f && c != ',' ? c : '_';
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ",") + word(name);
  return text;
}

void add(std::string& line, const char* key, const std::string& value) {
  if (!value.empty())
    line.append(" ").append(key).append("=").append(value);
}

void add_place(std::string& line, const PciPlace& place) {
  std::string bridges;
  for (const auto& bridge : place.bridges)
    bridges += (bridges.empty() ? "" : "/") + to_text(bridge);
  add(line, "host", std::to_string(place.host_bridge));
  add(line, "bridges", bridges);
  add(line, "numa", id_set_text(place.numa));
  add(line, "cpus", id_set_text(place.cpus));
}

std::string gpu_line(const Gpu& gpu) {
  std::string line = "gpu " + to_text(gpu.pci.address);
  add(line, "id", hex4(gpu.vendor) + ":" + hex4(gpu.device));
  if (gpu.partitions > 1)
    add(line, "partition", std::to_string(gpu.partition) + "/" + std::to_string(gpu.partitions));
  add_place(line, gpu.pci);
  if (gpu.minor)
    add(line, "minor", std::to_string(*gpu.minor));
  if (gpu.order)
    add(line, "order", std::to_string(*gpu.order));
  add(line, "uuid", word(gpu.uuid));
  add(line, "names", joined(gpu.names));
  return line;
}

std::string nic_line(const Nic& nic) {
  std::string line = "nic " + to_text(nic.pci.address);
  add(line, "id", hex4(nic.vendor) + ":" + hex4(nic.device));
  add(line, "class", hex4(nic.pci_class));
  if (nic.physical)
    add(line, "physical", to_text(*nic.physical));
  add_place(line, nic.pci);
  if (nic.pci_rate > 0)
    add(line, "pci_rate", std::to_string(nic.pci_rate));
  add(line, "rdma", word(nic.rdma));
  add(line, "net", joined(nic.interfaces));
  for (const auto& port : nic.ports)
    add(line, "port",
        std::to_string(port.number) + ":" + to_text(port.state) + ":" + to_text(port.link) + ":" +
            std::to_string(port.rate));
  return line;
}

} // namespace

std::string machine_text(const Machine& machine) {
  std::string text = std::string(kMachineTextHead) + " 1\n";
  if (!machine.name.empty())
    text += "name " + word(machine.name) + "\n";
  std::string allowed = "allowed";
  add(allowed, "cpus", id_set_text(machine.allowed_cpus));
  add(allowed, "numa", id_set_text(machine.allowed_numa));
  text += allowed + "\n";
  for (const auto& node : machine.numa_nodes) {
    text += "numa " + std::to_string(node.id) + " package=" + std::to_string(node.package);
    add(text, "cpus", id_set_text(node.cpus));
    text +=
        node.memory == Memory::kDram ? "\n" : std::string(" memory=") + to_text(node.memory) + "\n";
  }
  const Core* before = nullptr;
  for (const auto& core : machine.cores) {
    if (!before || before->package != core.package || before->cache != core.cache)
      text += (before ? "\ncores package=" : "cores package=") + std::to_string(core.package) +
              " cache=" + std::to_string(core.cache);
    text += " " + id_set_text(core.cpus);
    before = &core;
  }
  text += before ? "\n" : "";
  for (const auto& gpu : machine.gpus)
    text += gpu_line(gpu) + "\n";
  for (const auto& nic : machine.nics)
    text += nic_line(nic) + "\n";
  return text;
}

} // namespace dist_train
