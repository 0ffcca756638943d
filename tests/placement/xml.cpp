// SPDX-License-Identifier: BSD-3-Clause
#include "tests/placement/xml.h"

#include <cstdio>

namespace dist_train::xml {

namespace {

// Numbers of objects, filled in when the document is complete.
constexpr const char* kIndex = "gp_index=\"#\"";

// Bits first..first+count-1, in words of 32 with the lowest last.
std::string bits(unsigned first, unsigned count) {
  std::string text;
  for (unsigned word = 0; word * 32 < first + count; ++word) {
    unsigned value = 0;
    for (unsigned bit = 0; bit < 32; ++bit)
      value |= (word * 32 + bit >= first && word * 32 + bit < first + count ? 1u : 0u) << bit;
    char hex[16];
    std::snprintf(hex, sizeof hex, "0x%08x", value);
    text.insert(0, word == 0 ? hex : std::string(hex) + ",");
  }
  return text;
}

std::string sets(const std::string& cpus, const std::string& nodes) {
  return " cpuset=\"" + cpus + "\" complete_cpuset=\"" + cpus + "\" nodeset=\"" + nodes +
         "\" complete_nodeset=\"" + nodes + "\" ";
}

std::string object(const std::string& attributes, const std::string& inside) {
  return "<object " + attributes + " " + kIndex + ">\n" + inside + "</object>\n";
}

std::string package(unsigned number, unsigned cores, const std::string& memory,
                    const std::string& devices) {
  auto cpus = bits(cores * number, cores), node = bits(number, 1);
  auto index = std::to_string(number);
  auto inside = object("type=\"NUMANode\" os_index=\"" + index + "\"" + sets(cpus, node) +
                           "local_memory=\"1073741824\"",
                       "<page_type size=\"4096\" count=\"262144\"/>\n") +
                memory;
  for (unsigned cpu = cores * number; cpu < cores * (number + 1); ++cpu) {
    auto own = sets(bits(cpu, 1), node);
    inside += object("type=\"Core\" os_index=\"" + std::to_string(cpu) + "\"" + own,
                     object("type=\"PU\" os_index=\"" + std::to_string(cpu) + "\"" + own, ""));
  }
  return object("type=\"Package\" os_index=\"" + index + "\"" + sets(cpus, node), inside + devices);
}

} // namespace

std::string document(const Machine& machine) {
  auto nodes = machine.memory.empty() ? "0x00000003" : "0x0000000f";
  auto cpus = bits(0, 2 * machine.cores);
  auto allowed = machine.allowed_cpus.empty() ? cpus : machine.allowed_cpus;
  auto body = object("type=\"Machine\" os_index=\"0\"" + sets(cpus, nodes) + "allowed_cpuset=\"" +
                         allowed + "\" allowed_nodeset=\"" + nodes + "\"",
                     machine.infos + package(0, machine.cores, machine.memory, machine.devices[0]) +
                         package(1, machine.cores, "", machine.devices[1]) + machine.rootless);
  unsigned number = 0;
  for (auto at = body.find('#'); at != body.npos; at = body.find('#', at))
    body.replace(at, 1, std::to_string(++number));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
         "<topology version=\"2.0\">\n" +
         body + "</topology>\n";
}

std::string host_bridge(unsigned bus, const std::string& inside) {
  char range[32];
  std::snprintf(range, sizeof range, "0000:[%02x-%02x]", bus, bus + 0x1f);
  return object("type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"" +
                    std::string(range) + "\"",
                inside);
}

std::string bridge(const std::string& address, const std::string& inside) {
  return object("type=\"Bridge\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[00-ff]\" "
                "pci_busid=\"" +
                    address + "\" pci_type=\"0604 [1000:c010] [0000:0000] 00\" " +
                    "pci_link_speed=\"0.000000\"",
                inside);
}

std::string function(const std::string& address, const std::string& type,
                     const std::string& inside) {
  return object("type=\"PCIDev\" pci_busid=\"" + address + "\" pci_type=\"" + type +
                    " [0000:0000] 00\" pci_link_speed=\"31.504000\"",
                inside);
}

std::string device(const std::string& name, Kind kind, const std::string& infos) {
  return object("type=\"OSDev\" name=\"" + name + "\" osdev_type=\"" + std::to_string(kind) + "\"",
                infos);
}

std::string info(const std::string& name, const std::string& value) {
  return "<info name=\"" + name + "\" value=\"" + value + "\"/>\n";
}

std::string memory_node(unsigned number, const std::string& cpuset, const std::string& subtype) {
  return object("type=\"NUMANode\" os_index=\"" + std::to_string(number) + "\"" +
                    sets(cpuset, bits(number, 1)) + "local_memory=\"1073741824\"" +
                    (subtype.empty() ? "" : " subtype=\"" + subtype + "\""),
                "");
}

} // namespace dist_train::xml
