// SPDX-License-Identifier: BSD-3-Clause
// Which GPUs of a machine a list means: what a person types, and what CUDA_VISIBLE_DEVICES,
// ROCR_VISIBLE_DEVICES and Slurm say.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// Indices into Machine::gpus of a list as a person writes it: numbers in PCI order ("0-3,7"), PCI
// addresses ("0000:1b:00.0"; one address with several partitions means all of them, "/2" one),
// UUIDs or unique beginnings of them; "none". Refused: what names no GPU, or one twice.
Result<std::vector<std::size_t>> find_gpus(const Machine& machine, std::string_view list);

// An entry of a visible-devices variable; the token is never rewritten, only moved.
struct VisibleGpu {
  std::string token;
  std::optional<std::size_t> gpu; // of Machine::gpus; none where the token does not tell
};

// The entries up to the first empty or negative one, as the drivers read them. Numbers count the
// GPUs in PCI order (AMD's in ROCm's own, Gpu::order) among `accessible` ones (indices into
// Machine::gpus that this process' cgroup admits; all of them where nothing is hidden). A MIG
// instance of the old form names its GPU; of the new form only where there is one GPU.
std::vector<VisibleGpu> visible_gpus(const Machine& machine, std::string_view list,
                                     const std::vector<std::size_t>& accessible);

} // namespace dist_train
