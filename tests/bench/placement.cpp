// SPDX-License-Identifier: BSD-3-Clause
// Plans for a node of 256 CPUs, 8 GPUs and 10 NICs, and reads it from hwloc's XML.
// usage: bench_placement ROUNDS FILE; writes the XML to FILE and prints milliseconds as JSON: CPU
// of this process and the children that read, since a busy machine tells in wall time.
#include "libstep/core/placement.h"
#include "libstep/os/machine.h"
#include "tests/placement/xml.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <sys/resource.h>
#include <vector>

using namespace dist_train;

namespace {

std::string address(unsigned bus) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", bus);
  return text;
}

// Behind each of ten switches a NIC, behind eight of them a GPU as well.
std::string node_xml() {
  xml::Machine document;
  document.cores = 128;
  for (unsigned i = 0; i < 10; ++i) {
    auto bus = 1 + i * 16;
    auto nic = xml::function(
        address(bus + 4), "0207 [15b3:1021]",
        xml::device("mlx5_" + std::to_string(i), xml::kRdma, xml::info("Port1State", "4")));
    auto devices = xml::bridge(address(bus + 2), nic);
    if (i % 5 < 4)
      devices += xml::bridge(address(bus + 3), xml::function(address(bus + 5), "0302 [10de:2330]"));
    document.devices[i / 5] += xml::host_bridge(bus, xml::bridge(address(bus), devices));
  }
  return xml::document(document);
}

double cpu_milliseconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const auto& time : {usage.ru_utime, usage.ru_stime})
      sum += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  }
  return sum;
}

template <typename Work>
double median_cost(std::size_t rounds, Work work) {
  std::vector<double> costs;
  for (std::size_t i = 0; i < rounds; ++i) {
    auto begin = cpu_milliseconds();
    work();
    costs.push_back(cpu_milliseconds() - begin);
  }
  std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(rounds / 2),
                   costs.end());
  return costs[rounds / 2];
}

} // namespace

int main(int count, char** words) {
  auto rounds = count == 3 ? std::strtoul(words[1], nullptr, 10) : 0;
  if (rounds == 0)
    return 2;
  std::ofstream(words[2]) << node_xml();
  auto machine = read_machine(words[2]);
  if (!machine || all_cpus(*machine).size() != 256 || machine->gpus.size() != 8 ||
      machine->nics.size() != 10) {
    std::fprintf(stderr, "bench_placement: %s\n",
                 machine ? "another machine was read" : machine.error().message.c_str());
    return 1;
  }
  PlacementRequest request;
  request.tasks = 8;
  request.gpus.resize(8);
  std::iota(request.gpus.begin(), request.gpus.end(), 0);
  constexpr int kPlans = 20; // one is too short for the clock
  auto plan = median_cost(rounds, [&] {
    for (int i = 0; i < kPlans; ++i)
      if (plan_placement(*machine, request).tasks.size() != 8)
        std::abort();
  });
  auto load = median_cost(rounds, [&] {
    if (!read_machine(words[2]))
      std::abort();
  });
  std::printf("{\"plan_ms\": %.4f, \"load_ms\": %.3f}\n", plan / kPlans, load);
  return 0;
}
