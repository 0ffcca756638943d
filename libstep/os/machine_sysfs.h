// SPDX-License-Identifier: BSD-3-Clause
// What hwloc does not tell about a running node: the state of its ports, who its GPUs are.
#pragma once

#include "libstep/core/machine.h"

#include <string>
#include <vector>

namespace dist_train {

// `root` is "" for this node or a folder that holds a copy of its /sys and /proc. What cannot be
// read stays as it was.

// State, link layer and rate of the ports of RDMA devices, and of the interfaces of NICs without
// one; whose virtual functions NICs are.
void read_nics(Machine& machine, const std::string& root);

// Minor numbers and UUIDs of NVIDIA's GPUs; of AMD's partitions (which multiply the entries), UUIDs
// and the order in which ROCm counts them.
void read_gpu_identity(Machine& machine, const std::string& root);

// GPUs (indices into Machine::gpus) whose device file this process may use: a device cgroup admits
// no others, and Slurm and the drivers then number those only. All of them where that is not known.
// Opens nothing: that could start a driver.
std::vector<std::size_t> accessible_gpus(const Machine& machine, const std::string& root);

// Names of the RDMA devices, and PCI addresses of all functions of a display or accelerator class,
// sorted: what tells whether a description of the machine is still of this machine.
std::vector<std::string> device_list(const std::string& root);

// Puts as many entries for a GPU as it has partitions.
void split_partitions(std::vector<Gpu>& gpus, std::size_t index, std::uint32_t partitions);

// Content of a small file, without the newline at its end; "" if it cannot be read.
std::string read_line_of(const std::string& path);

} // namespace dist_train
