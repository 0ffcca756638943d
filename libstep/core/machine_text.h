// SPDX-License-Identifier: BSD-3-Clause
// A Machine as text, short enough to write by hand or to put into a bug report:
//
//   dist-train-machine 1
//   name gpu01
//   allowed cpus=0-15 numa=0-1
//   numa 0 package=0 cpus=0-3,8-11
//   numa 2 package=0 cpus=0-3,8-11 memory=other
//   cores package=0 cache=0 0,8 1,9 2,10 3,11
//   gpu 0000:06:00.0 id=10de:2335 host=1 bridges=0000:01:00.0/0000:02:01.0 numa=0 cpus=0-3,8-11
//   gpu 0001:02:00.0 id=1002:74a0 host=2 partition=0/6 numa=0 cpus=0-3,8-11 names=rsmi0
//   nic 0000:03:00.0 id=15b3:1021 class=0207 host=1 numa=0 cpus=0-3 rdma=mlx5_0 net=ib0
//       port=1:active:infiniband:400000            (one line; the words go on)
//
// '#' starts a comment line. Without `numa=` and `cpus=` a device's locality is unknown, without
// `cpus=` they are those of its NUMA nodes; without `allowed` everything is. Rates are Mb/s.
// memory= is dram, other, gpu or no-cpus; physical= of a nic is the function whose virtual one it
// is; order= of a gpu is its place where the runtime does not count in PCI order.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/result.h"

#include <string>
#include <string_view>

namespace dist_train {

inline constexpr std::string_view kMachineTextHead = "dist-train-machine";

std::string machine_text(const Machine& machine);

// parse_machine_text(machine_text(m), "") gives m. Errors begin with "FILE:LINE: ". Refused is also
// what no machine has: more cores or devices than thousands, a device or a CPU twice, and bytes
// that do not print.
Result<Machine> parse_machine_text(std::string_view text, std::string_view file);

// GPUs by address and partition, NICs by address, NUMA nodes by id.
void sort_devices(Machine& machine);

} // namespace dist_train
