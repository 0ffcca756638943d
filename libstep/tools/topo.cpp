// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/topo.h"

#include "libstep/core/machine_text.h"
#include "libstep/core/placement.h"
#include "libstep/os/machine.h"
#include "libstep/tools/arguments.h"
#include "libstep/tools/table.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <sys/stat.h>

namespace dist_train {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kLegend =
    "* chosen for this GPU (active, fastest, nearest)   () no port is active   ? not known\n"
    "PIX one PCIe switch   PXB several   PHB host bridge   NODE within, SYS between NUMA nodes\n";

std::string count_text(std::size_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string set_or_unknown(const IdSet& set) { return set.empty() ? "?" : id_set_text(set); }

std::string nic_key(std::size_t index) { return "n" + std::to_string(index); }

std::string gpu_name(const Gpu& gpu) {
  auto text = to_text(gpu.pci.address);
  return gpu.partitions > 1 ? text + "/" + std::to_string(gpu.partition) : text;
}

void print_summary(const Machine& machine) {
  std::set<std::uint32_t> packages;
  for (const auto& core : machine.cores)
    packages.insert(core.package);
  auto cpus = all_cpus(machine);
  std::printf("%s%s%s, %s, %s, %s, %s, %s\n", machine.name.c_str(),
              machine.name.empty() ? "" : ": ", count_text(packages.size(), "package").c_str(),
              count_text(machine.numa_nodes.size(), "NUMA node").c_str(),
              count_text(machine.cores.size(), "core").c_str(),
              count_text(cpus.size(), "CPU").c_str(),
              count_text(machine.gpus.size(), "GPU").c_str(),
              count_text(machine.nics.size(), "NIC").c_str());
  if (machine.allowed_cpus.size() < cpus.size())
    std::printf("of these CPUs %s may be used here\n", id_set_text(machine.allowed_cpus).c_str());
}

void print_gpus(const Machine& machine, const Placement& placement) {
  if (machine.gpus.empty()) {
    std::puts("\nno GPU");
    return;
  }
  Rows rows{{">gpu", "address", ">numa", "cpus"}};
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    rows.front().push_back(nic_key(i));
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const auto& gpu = machine.gpus[i];
    rows.push_back({std::to_string(i), gpu_name(gpu), set_or_unknown(gpu.pci.numa),
                    set_or_unknown(gpu.pci.cpus)});
    const auto& chosen = placement.tasks[i].nics;
    for (std::size_t n = 0; n < machine.nics.size(); ++n) {
      bool mark = std::find(chosen.begin(), chosen.end(), n) != chosen.end();
      std::string path = to_text(path_class(gpu.pci, machine.nics[n].pci));
      rows.back().push_back(usable_port(machine.nics[n]) == 0 ? "(" + path + ")"
                            : mark                            ? path + "*"
                                                              : path);
    }
  }
  std::printf("\n%s%s", table_text(std::move(rows)).c_str(), kLegend);
}

std::string rate_text(std::uint32_t megabits) {
  if (megabits == 0)
    return "-";
  return megabits % 1000 == 0 ? std::to_string(megabits / 1000) + " Gb/s"
                              : std::to_string(megabits) + " Mb/s";
}

void print_nics(const Machine& machine) {
  if (machine.nics.empty())
    return;
  Rows rows{{"nic", "rdma", "address", ">numa", "fabric", "state", ">rate", "interfaces"}};
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const auto& nic = machine.nics[i];
    std::string interfaces;
    for (const auto& name : nic.interfaces)
      interfaces += (interfaces.empty() ? "" : " ") + name;
    auto ports = nic.ports;
    if (ports.empty())
      ports.emplace_back();
    for (const auto& port : ports) {
      bool first = &port == &ports.front();
      auto rdma = nic.rdma.empty() ? "-" : nic.rdma + ":" + std::to_string(port.number);
      rows.push_back({first ? nic_key(i) : "", rdma, first ? to_text(nic.pci.address) : "",
                      first ? set_or_unknown(nic.pci.numa) : "",
                      first ? to_text(fabric_of(nic)) : "",
                      nic.ports.empty() ? "-" : to_text(port.state), rate_text(port.rate),
                      first ? or_dash(interfaces) : ""});
    }
  }
  std::printf("\n%s", table_text(std::move(rows)).c_str());
}

void print_numa_nodes(const Machine& machine) {
  Rows rows{{">numa", ">package", "cpus", "memory", "gpus", "nics"}};
  for (const auto& node : machine.numa_nodes) {
    std::string gpus, nics;
    auto near = [&](const PciPlace& place) {
      return std::binary_search(place.numa.begin(), place.numa.end(), node.id);
    };
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
      if (near(machine.gpus[i].pci))
        gpus += (gpus.empty() ? "" : " ") + std::to_string(i);
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
      if (near(machine.nics[i].pci))
        nics += (nics.empty() ? "" : " ") + nic_key(i);
    rows.push_back({std::to_string(node.id), std::to_string(node.package),
                    or_dash(id_set_text(node.cpus)), to_text(node.memory), or_dash(gpus),
                    or_dash(nics)});
  }
  std::printf("\n%s", table_text(std::move(rows)).c_str());
}

void print_machine(const Machine& machine) {
  PlacementRequest request;
  request.gpus.resize(machine.gpus.size());
  std::iota(request.gpus.begin(), request.gpus.end(), 0);
  request.tasks = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(machine.gpus.size()));
  auto placement = plan_placement(machine, request);
  print_summary(machine);
  print_gpus(machine, placement);
  print_nics(machine);
  print_numa_nodes(machine);
  for (const auto& warning : placement.warnings)
    std::printf("\nwarning: %s", warning.c_str());
  std::fputs(placement.warnings.empty() ? "" : "\n", stdout);
}

Result<void> write_new(const std::string& path, const std::string& text) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wxe"), std::fclose);
  bool good = file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
              std::fflush(file.get()) == 0;
  if (good)
    return {};
  return Error{path + ": cannot be written: " + std::strerror(errno),
               "name a folder that does not exist yet"};
}

// What a bug report needs: hwloc's view and ours.
int save(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return complain("topo", Error{folder + ": cannot be made: " + std::strerror(errno)}, 1);
  auto machine = read_this_machine();
  if (!machine)
    return complain("topo", machine.error(), 1);
  machine->name.clear();
  for (auto& gpu : machine->gpus)
    gpu.uuid.clear();
  auto xml = this_machine_xml();
  if (!xml)
    return complain("topo", xml.error(), 1);
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"machine.xml", *xml},
                                   {"machine.txt", machine_text(*machine)}}) {
    auto path = folder + "/" + name;
    if (auto written = write_new(path, text); !written)
      return complain("topo", written.error(), 1);
    std::puts(path.c_str());
  }
  std::puts(
      "Neither holds host names, serial numbers, UUIDs or network addresses; machine.txt is short "
      "enough to read before you send it.");
  return 0;
}

} // namespace

int run_topo(const std::vector<std::string>& words) {
  auto arguments = parse_arguments(words, {"cache"}, {"machine", "save"});
  if (!arguments)
    return complain("topo", arguments.error(), 2);
  if (arguments->size() > 1)
    return complain("topo", Error{"--machine, --save and --cache exclude each other"}, 2);
  if (auto folder = arguments->find("save"); folder != arguments->end())
    return save(folder->second);
  bool cache = arguments->contains("cache");
  auto machine = cache ? write_machine_cache() : machine_argument(*arguments);
  if (!machine)
    return complain("topo", machine.error(), 1);
  if (cache)
    std::printf("written: %s, good until the next boot\n", kMachineCache);
  else
    print_machine(*machine);
  return 0;
}

} // namespace dist_train
