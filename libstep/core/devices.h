// SPDX-License-Identifier: BSD-3-Clause
// The GPUs that a task may use, as Slurm's variables name them. An entry of such a list is a name:
// an index, a (short) UUID, a MIG instance. It is never made a number and never rewritten; what
// frameworks count is its position.
#pragma once

#include "libstep/core/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist_train {

// Whose driver the node runs. Without gres flags Slurm writes the variables of all vendors, and
// only those of the node's own have an effect.
enum class GpuVendor { kUnknown, kNvidia, kAmd };

struct TaskDevices {
  std::vector<std::string> names; // in the order the task counts them; empty if there is no list
  std::uint32_t count = 0;        // GPUs the task may use, also where Slurm names none of them
  bool isolated = false;          // other tasks of the node see other GPUs
};

// The names of a list as its driver reads it: CUDA's ends before the first entry that is none
// (empty, -1, NoDevFiles, of another kind than the first), and is empty when an entry repeats.
std::vector<std::string> device_names(std::string_view variable, std::string_view list);

// From the task's environment. HIP_VISIBLE_DEVICES counts inside ROCR_VISIBLE_DEVICES, whose names
// are those of the devices. With --gpu-bind=none Slurm names none, and all of the step's on the
// node can be used.
// --gpus-per-task, --ntasks-per-gpu and --gpu-bind show as fewer GPUs than the step has there.
TaskDevices task_devices(const Environment& environment, std::uint32_t local_world_size,
                         GpuVendor vendor);

// The devices at the positions `order` only, in that order.
TaskDevices seen_at(const TaskDevices& devices, const std::vector<std::size_t>& order);

// The lists of all vendors that show those: what Slurm
// set, rearranged, and HIP's numbers inside ROCR's list anew. Nothing that is not there is added.
std::vector<std::pair<std::string, std::string>>
rearranged_lists(const Environment& environment, const TaskDevices& devices,
                 const std::vector<std::size_t>& order);

// Position of the task's own GPU among those it may use; nothing if it has none. More tasks than
// GPUs share only with `oversubscribe`, or where there is a single one to see.
std::optional<std::uint32_t> own_device(const TaskDevices& devices, std::uint32_t local_rank,
                                        bool oversubscribe);

// JAX_LOCAL_DEVICE_IDS: all GPUs of a task that shares them with no other, else its own; "" if it
// has none.
std::string jax_device_ids(const TaskDevices& devices, std::uint32_t local_rank,
                           std::uint32_t local_world_size, bool oversubscribe);

} // namespace dist_train
