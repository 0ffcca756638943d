// SPDX-License-Identifier: BSD-3-Clause
// hwloc's XML written by hand, for what only its reading can get wrong.
#pragma once

#include <string>
#include <vector>

namespace dist_train::xml {

// A machine of two packages with a NUMA node and `cores` cores of one CPU each. `devices` hang on
// the packages, by number; `rootless` ones on the machine itself. Inside a package there may be
// more memory nodes. `allowed_cpus` "" means all.
struct Machine {
  unsigned cores = 2; // of a package
  std::vector<std::string> devices = {"", ""};
  std::string rootless;
  std::string memory; // in the first package
  std::string allowed_cpus;
  std::string infos;
};
std::string document(const Machine& machine);

std::string host_bridge(unsigned bus, const std::string& inside);
std::string bridge(const std::string& address, const std::string& inside);
// `type` is "0302 [10de:2330]".
std::string function(const std::string& address, const std::string& type,
                     const std::string& inside = "");

enum Kind { kGpu = 1, kNet = 2, kRdma = 3, kCoprocessor = 5 };
std::string device(const std::string& name, Kind kind, const std::string& infos = "");
std::string info(const std::string& name, const std::string& value);
std::string memory_node(unsigned number, const std::string& cpuset, const std::string& subtype);

} // namespace dist_train::xml
