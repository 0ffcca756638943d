// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for srun, sbatch and slurmstepd: it exports the functions that a SPANK plugin calls
// and keeps what the plugin does with them. The test program is linked with -rdynamic, so that the
// real plugin, loaded with dlopen(RTLD_NOW) as Slurm does, finds them.
#pragma once

#include "spank/export.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct FakeSlurm {
  spank_context_t context = S_CTX_LOCAL;
  std::uint32_t step = 0;
  std::string major = "22", minor = "05";
  std::map<std::string, std::string> environment; // of the task

  std::vector<std::string> errors;   // slurm_error lines
  std::vector<std::string> verbose;  // slurm_verbose lines
  std::vector<spank_option> options; // registered
  int calls = 0;                     // of spank_* functions
};

// The one in use; a test resets it.
extern FakeSlurm fake_slurm;
