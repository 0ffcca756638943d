// SPDX-License-Identifier: BSD-3-Clause
// What a Kubeflow manifest asks for: a PyTorchJob of the Training Operator or a TrainJob of the
// Trainer, found among the documents of a file.
#pragma once

#include "libstep/core/result.h"
#include "libstep/tools/convert/pod.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dist_train {

struct Manifest {
  enum class Kind { kPyTorchJob, kTrainJob };
  Kind kind = Kind::kPyTorchJob;
  std::string name;
  std::string runtime;    // a TrainJob's; printable
  std::uint32_t pods = 1; // each is a node's share of the Slurm job
  // Processes that a launcher starts in each pod: a number, or auto, gpu, cpu.
  std::string processes = "auto";
  Pod pod;
  std::optional<std::uint64_t> limit_seconds;
  bool held = false;
  std::vector<std::string> notes; // printable lines for the script: what was decided, what is left
};

// `file` is what errors call it. `job` chooses by name where a file has several, else it is empty.
Result<Manifest> read_manifest(const std::vector<YamlNode>& documents, const std::string& job,
                               const std::string& file);

} // namespace dist_train
