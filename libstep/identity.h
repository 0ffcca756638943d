// SPDX-License-Identifier: BSD-3-Clause
// Who this process is in its step, from the environment alone. Pure: the environment and the host's
// name come in, an Identity or an Error that names variable and value goes out. Nothing is opened.
//
// Sources, in this order: a launcher running inside a task (torchrun sets TORCHELASTIC_RUN_ID),
// the plugin (DIST_TRAIN_VERSION), mpirun, whose daemons may be tasks of Slurm, a Slurm step (never
// a batch script, which describes itself with some of the same variables), variables set by hand
// or by another launcher (RANK and WORLD_SIZE, a pod's, JAX's), and else a world of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libstep/core/environment.h"
#include "libstep/core/rank_map.h"
#include "libstep/core/rendezvous.h"
#include "libstep/core/result.h"
#include "libstep/include/libstep/step.h"
#include "libstep/store/socket.h"

namespace dist_train {

struct Identity {
  step_source_t source = STEP_SOURCE_SINGLE;
  std::string source_text;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_world = 1;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 1;
  std::string node_name;          // of this node
  std::vector<std::string> nodes; // of each rank, "" where unknown
  bool layout_told = true;        // false: the ranks must tell each other who runs where
  std::string strategy;           // "fsdp", "hsdp", "zero2", "ddp" or ""
  std::string step_id;            // "4711.0", or ""
  std::uint32_t restart_count = 0;
  std::string job;                      // as scontrol names it: "4711", "4700_3"; "" outside Slurm
  std::optional<std::uint64_t> job_end; // Unix time of its limit, where Slurm says it
  std::optional<Endpoint> broker;       // of our srun, see core/srun_request.h
  std::string master_address;
  std::uint16_t master_port = 0; // 0: rank 0 picks one and tells the others

  // How the store is found. Without the plugin nobody tells its port: rank 0 takes the first free
  // port of a sequence that all ranks can compute from `meeting`, the others try the same sequence.
  std::string token; // with the plugin a secret; else derived from what the ranks share, which
                     // keeps steps from being mixed up but nobody out
  std::optional<Endpoint> store;
  std::vector<std::string> store_hosts;
  StepId meeting;
  std::optional<std::uint32_t> store_fd;
  std::optional<std::uint32_t> port_fd;
};

// Who runs where, once it is known. The map has this rank and identity.world ranks.
void place_in(Identity& identity, const RankMap& map);

Result<Identity> find_identity(const Environment& environment, const std::string& host_name);

} // namespace dist_train
