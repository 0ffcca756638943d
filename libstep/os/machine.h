// SPDX-License-Identifier: BSD-3-Clause
// The Machine of this node, or of a file: hwloc's XML, the text form, or a folder in which
// hwloc-gather-topology's archive was unpacked.
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/result.h"

#include <string>

namespace dist_train {

inline constexpr std::size_t kMaxMachineFile = std::size_t{16} << 20; // bytes
inline constexpr const char* kMachineCache = "/run/dist-train/machine.xml";

// All of these read the environment's HWLOC_* variables out of the way while they run (they may
// name files and plug-ins to load, which a privileged caller must not), so call them where no other
// thread uses the environment: in a forked child or a command. They load no vendor library and
// leave the thread's CPU binding alone.

// This node: the whole of it, also what a cgroup hides, with allowed_cpus and allowed_numa saying
// what is left of it.
Result<Machine> read_this_machine();

// A file or folder that describes some machine. Nothing of this node gets into it. Refused with
// file and reason: what is not one of the forms, is too large, ends early or has no CPUs.
Result<Machine> read_machine(const std::string& path);

// The cache of this node, with the live state of its NICs and the live allowed sets. Refused: a
// file that others than root may change, of another boot or hwloc, and where GPUs or RDMA devices
// have come or gone.
Result<Machine> read_machine_cache(const std::string& path = kMachineCache);

// Writes the cache (root); returns the Machine it describes.
Result<Machine> write_machine_cache(const std::string& path = kMachineCache);

// hwloc's XML of this node, for a bug report: without the infos that name it (host, serial numbers,
// addresses of its interfaces).
Result<std::string> this_machine_xml();

} // namespace dist_train
