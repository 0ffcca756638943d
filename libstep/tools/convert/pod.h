// SPDX-License-Identifier: BSD-3-Clause
// What a pod's container is: the part that a PyTorchJob's templates and a TrainJob's trainer have
// in common.
#pragma once

#include "libstep/tools/convert/fields.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

struct PodVariable {
  std::string name, value;
  bool operator==(const PodVariable&) const = default;
};

// A variable whose value the cluster has (a secret, a ConfigMap, the pod's own fields).
struct PodSecret {
  std::string name;
  std::string from; // printable
  bool optional = false;
  bool operator==(const PodSecret&) const = default;
};

struct PodMount {
  std::string source, target;
  bool read_only = false;
  bool operator==(const PodMount&) const = default;
};

// What a node's share of a job has to be; 0 where the manifest does not say.
struct PodResources {
  std::uint32_t gpus = 0;
  std::uint32_t cpus = 0;
  std::uint64_t memory_mib = 0;
  bool operator==(const PodResources&) const = default;
};

struct Pod {
  std::string image; // empty: it is the runtime's
  std::vector<std::string> command, args;
  std::vector<PodVariable> variables;
  std::vector<PodSecret> secrets;
  std::vector<PodMount> mounts;
  std::string folder; // empty: the image's
  PodResources resources;
};

// A container (or a TrainJob's trainer, whose resources are its `resourcesPerNode`). What is wrong
// is in `fields` afterwards, as with all that follows.
Pod read_container(Fields& fields, const YamlNode* container, const char* resources_name);

// A pod's spec: the container called `name`, or the only one. Its host paths become mounts.
Pod read_pod(Fields& fields, const YamlNode* spec, const char* name);

} // namespace dist_train
