// SPDX-License-Identifier: BSD-3-Clause
// Who a process is, from its environment alone. Input: lines; the first character of each picks the
// variable, the rest is its value.
#include "libstep/identity.h"
#include "libstep/core/text.h"
#include "tests/fuzz/check.h"

#include <array>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

// Picked by a character from 'A' on.
constexpr std::array kNames{"DIST_TRAIN_VERSION",
                            "DIST_TRAIN_STEP",
                            "DIST_TRAIN_LAYOUT",
                            "DIST_TRAIN_STORE",
                            "DIST_TRAIN_TOKEN",
                            "DIST_TRAIN_STRATEGY",
                            "DIST_TRAIN_STORE_FD",
                            "RANK",
                            "WORLD_SIZE",
                            "LOCAL_RANK",
                            "LOCAL_WORLD_SIZE",
                            "NODE_RANK",
                            "GROUP_RANK",
                            "GROUP_WORLD_SIZE",
                            "MASTER_ADDR",
                            "MASTER_PORT",
                            "SLURM_JOB_ID",
                            "SLURM_STEP_ID",
                            "SLURM_PROCID",
                            "SLURM_LOCALID",
                            "SLURM_NODEID",
                            "SLURM_GTIDS",
                            "SLURM_STEP_NUM_TASKS",
                            "SLURM_STEP_NODELIST",
                            "SLURM_STEP_TASKS_PER_NODE",
                            "SLURM_DISTRIBUTION",
                            "SLURMD_NODENAME",
                            "SLURM_HET_SIZE",
                            "TORCHELASTIC_RUN_ID",
                            "TORCHELASTIC_RESTART_COUNT",
                            "DIST_TRAIN_RESTART_COUNT",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "PMIX_NAMESPACE",
                            "PMI_RANK",
                            "PMI_SIZE",
                            "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS",
                            "PET_NNODES",
                            "PET_NPROC_PER_NODE",
                            "PET_NODE_RANK",
                            "PET_MASTER_ADDR",
                            "PET_MASTER_PORT",
                            "JAX_NUM_PROCESSES",
                            "JAX_PROCESS_ID",
                            "JAX_COORDINATOR_ADDRESS",
                            "SLURM_STEP_NUM_NODES"};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Environment environment;
  std::string token;
  for (auto line : split(text_of(data, size), '\n')) {
    if (line.empty())
      continue;
    auto pick = static_cast<unsigned char>(line[0] - 'A') % kNames.size();
    auto value = line.substr(1);
    environment[kNames[pick]] = value.substr(0, value.find('\0'));
  }
  auto identity = find_identity(environment, "host");
  if (!identity) {
    require_readable(identity.error());
    return 0;
  }
  const auto& who = *identity;
  require(who.world > 0 && who.rank < who.world, "a rank of the world");
  require(who.local_rank < who.local_world && who.local_world <= who.world, "a rank of the node");
  require(who.node_rank < who.node_count || environment.contains("SLURM_HET_SIZE"),
          "a node of the step");
  require(who.nodes.size() == who.world, "a node for each rank");
  require(who.token.size() == 32 &&
              who.token.find_first_not_of("0123456789abcdef") == std::string::npos,
          "a token of 32 digits");
  require(!who.store || who.store->port != 0, "a store has a port");
  require(!who.source_text.empty() && printable(who.source_text), "it says where it comes from");
  return 0;
}
