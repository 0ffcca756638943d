// SPDX-License-Identifier: BSD-3-Clause
// hwloc, and nothing else of it: loading a topology safely, and turning it into a Machine.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/result.h"

#include <hwloc.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dist_train {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

// Takes all HWLOC_* variables out of the environment, so that nobody's environment makes hwloc open
// a file or load a plug-in, and puts them back at its end. No other thread may use the environment.
class HwlocEnvironment {
public:
  explicit HwlocEnvironment(const std::vector<std::pair<std::string, std::string>>& ours = {});
  ~HwlocEnvironment();
  HwlocEnvironment(const HwlocEnvironment&) = delete;
  HwlocEnvironment& operator=(const HwlocEnvironment&) = delete;

private:
  std::vector<std::pair<std::string, std::string>> theirs_;
};

// Where a topology comes from. `xml` (not empty) ends with a NUL; otherwise the machine, or what
// HWLOC_FSROOT says.
struct TopologySource {
  std::string xml;
  bool this_system = true; // with xml: it describes this machine, whose live limits apply
};

// The whole machine, I/O included. A HwlocEnvironment must exist. The error says what hwloc said.
Result<Topology> load_topology(const TopologySource& source);

Machine machine_of(hwloc_topology_t topology);

// "2.8.0" of the library that runs; some releases share one.
std::string hwloc_api();

// XML that hwloc of the same major release reads.
Result<std::string> export_xml(hwloc_topology_t topology);

} // namespace dist_train
