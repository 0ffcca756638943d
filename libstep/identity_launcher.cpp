// SPDX-License-Identifier: BSD-3-Clause
// torchrun, and every other launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// (a Kubeflow PyTorchJob, DeepSpeed's launcher, a script).
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {

Result<Identity> launcher_identity(Variables variables, const std::string& host_name) {
  Identity identity;
  identity.source = STEP_SOURCE_TORCHRUN;
  identity.world = variables.need_number("WORLD_SIZE", 1, kMaxWorld);
  identity.rank = variables.need_number("RANK", 0, identity.world - 1);

  // A launcher that says nothing of nodes runs one process on each.
  identity.local_world = variables.number("LOCAL_WORLD_SIZE", 1, identity.world, 1);
  identity.local_rank = variables.number("LOCAL_RANK", 0, identity.local_world - 1, 0);
  const std::uint32_t nodes = (identity.world + identity.local_world - 1) / identity.local_world;
  identity.node_count = variables.number("GROUP_WORLD_SIZE", 1, identity.world, nodes);
  const auto first_guess = std::min(identity.rank / identity.local_world, identity.node_count - 1);
  identity.node_rank = variables.number(variables.has("GROUP_RANK") ? "GROUP_RANK" : "NODE_RANK", 0,
                                        identity.node_count - 1, first_guess);
  identity.node_name = host_name;
  identity.nodes.resize(identity.world);
  // The workers of one agent have neighbouring ranks.
  if (identity.rank < identity.local_rank ||
      identity.rank - identity.local_rank + identity.local_world > identity.world)
    variables.complain({"LOCAL_RANK=" + std::to_string(identity.local_rank) +
                            " with LOCAL_WORLD_SIZE=" + std::to_string(identity.local_world) +
                            " contradicts RANK=" + std::to_string(identity.rank) +
                            " of WORLD_SIZE=" + std::to_string(identity.world),
                        "see what sets these variables; one launcher should set them all"});
  else
    for (std::uint32_t i = 0; i < identity.local_world; ++i)
      identity.nodes[identity.rank - identity.local_rank + i] = host_name;

  const std::string run = variables.text("TORCHELASTIC_RUN_ID");
  identity.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0, UINT32_MAX, 0);
  identity.source_text = run.empty() ? "a launcher that sets RANK and WORLD_SIZE"
                                     : "torchrun (run " + quoted(run) + ")";
  if (identity.world > 1) {
    identity.master_address = variables.need_text("MASTER_ADDR");
    identity.master_port =
        static_cast<std::uint16_t>(variables.need_number("MASTER_PORT", 1, 65535));
    if (identity.master_address.size() > 255)
      variables.complain(
          {"MASTER_ADDR=" + quoted(identity.master_address) + " is longer than a host name can be",
           "set it to the name or address of rank 0's node"});
  } else {
    identity.master_address =
        variables.has("MASTER_ADDR") ? variables.text("MASTER_ADDR") : "127.0.0.1";
    identity.master_port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, 65535, 0));
  }
  if (variables.problem())
    return *variables.problem();

  identity.store_hosts = {identity.master_address};
  derive_meeting(identity, "launcher\n" + identity.master_address + "\n" +
                               std::to_string(identity.master_port) + "\n" + run + "\n" +
                               std::to_string(identity.restart_count) + "\n" +
                               std::to_string(identity.world));
  // The agent itself listens on MASTER_PORT and lends its store to the workers; a program that
  // wants to listen needs another port.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    identity.master_port = 0;
  return identity;
}

} // namespace dist_train
