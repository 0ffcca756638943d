// SPDX-License-Identifier: BSD-3-Clause
// What this process and its node may use: limits, shared memory, RDMA devices.
#pragma once

#include "libstep/core/devices.h"

#include <cstdint>
#include <string>

namespace dist_train {

struct Limit {
  std::uint64_t soft = 0; // kUnlimited (core/node_facts.h) where there is none
  std::uint64_t hard = 0;
};

// RLIMIT_NOFILE and RLIMIT_MEMLOCK (bytes) of this process; 0 if they cannot be read.
Limit open_files_limit();
Limit locked_memory_limit();

// Size of the file system at `path` in bytes; 0 if it cannot be read.
std::uint64_t filesystem_size(const char* path);

// RDMA devices of the node, sorted, "mlx5_0,mlx5_1"; "" if there is none. Names that do not look
// like one are left out.
std::string rdma_devices(const char* folder = "/sys/class/infiniband");

// Whose GPU driver is loaded.
GpuVendor gpu_vendor();

} // namespace dist_train
