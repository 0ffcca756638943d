// SPDX-License-Identifier: BSD-3-Clause
// Which GPUs of a machine are meant: by what a person types, by the names that drivers and Slurm
// use.
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

// The GPUs (indices into Machine::gpus) behind the names of a visible-devices variable
// (core/devices.h); none where a name does not tell. Numbers count the GPUs in PCI order (AMD's in
// ROCm's own, Gpu::order) among `accessible` ones (indices, too: those that this process' cgroup
// admits; all where nothing is hidden). A MIG instance of the old form names its GPU; of the new
// form only where there is one GPU.
std::vector<std::optional<std::size_t>> named_gpus(const Machine& machine,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<std::size_t>& accessible);

} // namespace dist_train
