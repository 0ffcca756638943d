// SPDX-License-Identifier: BSD-3-Clause
// srun's own command line, read before Slurm parses it: whether to set SLURM_KILL_BAD_EXIT must be
// decided in the plugin's first hook, when no option is known yet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// What srun's --cpu-bind or SLURM_CPU_BIND wants: Slurm's automatic choice, no binding, a certain
// one.
enum class CpuBind { kUnsaid, kNone, kBinds };

CpuBind cpu_bind_of(std::string_view value);

struct SrunLine {
  bool has_dist_train = false;
  std::string dist_train;         // value of the last --dist-train; "" for the bare option
  bool kills_on_bad_exit = false; // the user said -K or --kill-on-bad-exit, with whatever value
  CpuBind cpu_bind = CpuBind::kUnsaid; // of the last --cpu-bind
  // Of --nodes, and of --ntasks or --ntasks-per-node with it; 0 where they do
  // not tell, and in heterogeneous steps.
  std::uint32_t nodes = 0, tasks = 0;
  bool interactive = false; // salloc's own srun, which runs the user's shell on a node
  bool by_launcher = false; // mpirun or its like called srun to start its daemons, not ranks
};

// Options before the program's name, in every component of a heterogeneous step (":").
SrunLine read_srun_line(const std::vector<std::string>& arguments);

// Arguments of this process, without its own name.
std::vector<std::string> own_arguments();

} // namespace dist_train
