// SPDX-License-Identifier: BSD-3-Clause
// The SPANK plugin's exports: each hook goes to srun's side (local) or to slurmstepd's (remote),
// and nothing that goes wrong in there reaches Slurm as an exception or as a number it does not
// expect.
#include "spank/export.h"

#include "spank/local.h"
#include "spank/remote.h"
#include "spank/slurm_facts.h"

#include <exception>
#include <unistd.h>

extern "C" {
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
}
DIST_TRAIN_EXPORT const char plugin_name[] = "dist_train";
DIST_TRAIN_EXPORT const char plugin_type[] = "spank";
DIST_TRAIN_EXPORT const unsigned int plugin_version = SLURM_VERSION_NUMBER;
DIST_TRAIN_EXPORT const unsigned int spank_plugin_version = 1;

#ifdef DIST_TRAIN_STATIC_RUNTIME
// The C++ runtime in here takes memory for exceptions when it is loaded. Slurm loads and unloads its
// plugins again and again; nothing may stay behind.
namespace __gnu_cxx {
void __freeres();
}
__attribute__((destructor)) static void free_runtime() { __gnu_cxx::__freeres(); }
#endif

namespace {

using namespace dist_train;

// Slurm takes 0 for success and -1 for failure in every release; other numbers mean different
// things in different ones.
template <typename Body>
int guard(const char* hook, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& e) {
    slurm_error("dist-train: %s: unexpected failure: %s", hook, e.what());
  } catch (...) {
    slurm_error("dist-train: %s: unexpected failure", hook);
  }
  return -1;
}

bool in_srun() { return spank_context() == S_CTX_LOCAL; }
bool in_command() { return in_srun() || spank_context() == S_CTX_ALLOCATOR; }
bool in_step() { return spank_context() == S_CTX_REMOTE; }

// Slurm tells a callback where it runs. On a node it must not fail: the step would lose its option.
int on_option(int, const char* text, int remote) {
  if (remote) {
    remote::keep_option(text);
    return 0;
  }
  return guard("--dist-train", [&] { return local::option(text); });
}

// Slurm wants plain char*, and changes none of it.
char option_name[] = "dist-train";
char option_argument[] = "[WORD[,WORD...]]";
char option_usage[] = "[dist-train] make every task a rank of one training world: sets RANK, "
                      "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and so on. --dist-train=help lists the "
                      "words.";
constexpr int kOptionalArgument = 2;
spank_option option_row{option_name, option_argument, option_usage, kOptionalArgument,
                        0,           on_option};

} // namespace

DIST_TRAIN_EXPORT int slurm_spank_init(spank_t spank, int count, char** arguments) {
  if (!in_command() && !in_step())
    return 0;
  if (spank_option_register(spank, &option_row) != ESPANK_SUCCESS) {
    slurm_error("dist-train: Slurm does not take the option --%s; another plugin may have it",
                option_name);
    return in_step() ? 0 : -1;
  }
  if (in_step())
    return 0;
  return guard("init", [&] { return local::init(in_srun(), {arguments, arguments + count}); });
}

DIST_TRAIN_EXPORT int slurm_spank_init_post_opt(spank_t, int, char**) {
  if (!in_command())
    return 0;
  int rc = guard("init_post_opt", [] { return local::init_post_opt(in_srun()); });
  // An optional plugin's failure would let srun start the tasks without what they asked for.
  if (rc != 0 && local::asked())
    _exit(1);
  return rc;
}

DIST_TRAIN_EXPORT int slurm_spank_local_user_init(spank_t spank, int, char**) {
  return guard("local_user_init", [&] { return local::local_user_init(read_launch(spank)); });
}

DIST_TRAIN_EXPORT int slurm_spank_task_init_privileged(spank_t spank, int, char**) {
  guard("task_init_privileged", [&] {
    remote::task_init_privileged(spank);
    return 0;
  });
  return 0; // it only looks
}

DIST_TRAIN_EXPORT int slurm_spank_task_init(spank_t spank, int, char**) {
  int rc = guard("task_init", [&] {
    remote::task_init(spank);
    return 0;
  });
  // This is the forked child of one task; an optional plugin's failure would let it run on.
  if (rc != 0)
    _exit(1);
  return rc;
}

DIST_TRAIN_EXPORT int slurm_spank_exit(spank_t, int, char**) {
  return in_command() ? guard("exit",
                              [] {
                                local::exit();
                                return 0;
                              })
                      : 0;
}
