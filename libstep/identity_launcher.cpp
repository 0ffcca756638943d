// SPDX-License-Identifier: BSD-3-Clause
// torchrun's workers, processes that were given RANK and WORLD_SIZE by hand or by some launcher,
// and single processes in pods, which Kubeflow gives numbers of their own.
#include <algorithm>

#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {
namespace {

// One rank's place among the others as its launcher names it.
struct Names {
  std::string_view rank, world, address;
  std::string_view port; // "" where the address has it
};
constexpr Names kTorch{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
constexpr Names kPod{"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"};
constexpr Names kJax{"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS", ""};
constexpr Names kJaxJob{"PROCESS_ID", "NUM_PROCESSES", "COORDINATOR_ADDRESS", "COORDINATOR_PORT"};

constexpr std::string_view kWorldHint = "set it to the number of processes on all hosts together";
constexpr std::string_view kRankHint = "give each process a number of its own, from 0";
constexpr std::string_view kStartByTorchrun =
    "start the program by torchrun, which reads the PET_* variables itself: "
    "torchrun --no-python PROGRAM [ARGUMENT]...; or ask for one process in each pod";

void read_place(Variables& variables, Identity& identity, const Names& names) {
  identity.world = variables.need_number(names.world, 1, kMaxWorld, kWorldHint);
  identity.rank = variables.need_number(names.rank, 0, identity.world - 1, kRankHint);
}

// Rank 0's address and port. Who is alone needs neither.
void read_address(Variables& variables, Identity& identity, const Names& names) {
  if (identity.world == 1 && !variables.has(names.address)) {
    identity.master_address = "127.0.0.1";
    return;
  }
  identity.master_address = variables.need_text(names.address, kAddressHint);
  if (names.port.empty() && variables.has(names.address)) {
    const auto endpoint = parse_endpoint(identity.master_address);
    if (!endpoint)
      return variables.complain(
          {std::string(names.address) + ": " + endpoint.error().message, endpoint.error().hint});
    identity.master_address = endpoint->host;
    identity.master_port = endpoint->port;
  } else if (identity.world > 1) {
    identity.master_port =
        static_cast<std::uint16_t>(variables.need_number(names.port, 1, 65535, kPortHint));
  } else {
    identity.master_port = static_cast<std::uint16_t>(variables.number(names.port, 1, 65535, 0));
  }
  expect_host_name(variables, names.address, identity.master_address);
}

// The workers of one agent have neighbouring ranks, and so have, as a rule, those of one host.
void read_host(Variables& variables, Identity& identity, const std::string& host_name) {
  // Who says nothing of hosts runs one process on each.
  identity.local_world = variables.number("LOCAL_WORLD_SIZE", 1, identity.world, 1);
  const bool told = variables.has("LOCAL_WORLD_SIZE") || !variables.has("LOCAL_RANK");
  identity.layout_told = told || identity.world == 1;
  if (identity.local_world > 1)
    (void)variables.need_text("LOCAL_RANK", "number the processes of each host from 0");
  identity.local_rank = variables.number(
      "LOCAL_RANK", 0, (identity.layout_told ? identity.local_world : identity.world) - 1, 0);
  if (!identity.layout_told)
    identity.local_world = identity.local_rank + 1; // until the ranks have met
  const std::uint32_t nodes = (identity.world + identity.local_world - 1) / identity.local_world;
  identity.node_count = variables.number("GROUP_WORLD_SIZE", 1, identity.world, nodes);
  const auto first_guess = std::min(identity.rank / identity.local_world, identity.node_count - 1);
  identity.node_rank = variables.number(variables.has("GROUP_RANK") ? "GROUP_RANK" : "NODE_RANK", 0,
                                        identity.node_count - 1, first_guess);
  identity.node_name = host_name;
  identity.nodes.resize(identity.world);
  if (!identity.layout_told) {
    identity.nodes[identity.rank] = host_name;
    return;
  }
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
}

// In a pod that torchrun was meant for, a program alone is its only process.
void expect_alone_in_pod(Variables& variables, const Names& names) {
  const auto said = [&](std::string_view name) {
    return std::string(name) + "=" + quoted(variables.text(name));
  };
  const std::string pods = variables.text("PET_NNODES");
  if (pods.find(':') != pods.npos)
    return variables.complain({said("PET_NNODES") + " lets the number of pods change, which only "
                                                    "torchrun can follow, and it did not start "
                                                    "this process",
                               std::string(kStartByTorchrun)});
  // A word ("auto", "gpu") leaves the number to torchrun, unless WORLD_SIZE tells it.
  const std::string processes = variables.text("PET_NPROC_PER_NODE");
  const auto number = parse_number(processes, UINT32_MAX);
  const bool alone =
      number ? *number == 1 : processes.empty() || names.rank != kPod.rank || pods == "1";
  if (!alone)
    variables.complain({said(names.rank) + " is the number of a pod, " +
                            said("PET_NPROC_PER_NODE") +
                            " processes are wanted in each, and this one was started alone",
                        std::string(kStartByTorchrun)});
}

// Tasks of a step that are each a world of one: of agents that do not know each other, or of an
// srun inside of a torchrun, whose variables they have inherited.
void expect_agents_to_meet(Variables& variables, const Identity& identity) {
  const auto tasks = variables.number("SLURM_STEP_NUM_TASKS", 1, kMaxWorld, 1);
  if (in_slurm_step(variables) && tasks > 1 && identity.world == 1)
    variables.complain({"SLURM_STEP_NUM_TASKS=" + std::to_string(tasks) +
                            " and torchrun's WORLD_SIZE=1: each task would be a world of its own",
                        "tell torchrun of all nodes, as --dist-train=torchrun does; before an srun "
                        "inside of torchrun unset TORCHELASTIC_RUN_ID, RANK and WORLD_SIZE; for "
                        "worlds of one unset SLURM_STEP_NUM_TASKS"});
}

} // namespace

Result<Identity> torchrun_identity(Variables variables, const std::string& host_name) {
  Identity identity;
  identity.source = STEP_SOURCE_TORCHRUN;
  const std::string run = variables.text("TORCHELASTIC_RUN_ID");
  identity.source_text = "torchrun (run " + quoted(run) + ")";
  read_place(variables, identity, kTorch);
  read_host(variables, identity, host_name);
  read_address(variables, identity, kTorch);
  identity.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0, UINT32_MAX, 0);
  expect_agents_to_meet(variables, identity);
  if (variables.problem())
    return *variables.problem();
  derive_meeting_at_master(identity, run);
  // The agent itself listens on MASTER_PORT and lends its store to the workers; a program that
  // wants to listen needs another port.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    identity.master_port = 0;
  return identity;
}

bool has_bare_variables(const Variables& variables) {
  for (const auto name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PET_NNODES",
                          "PET_NODE_RANK", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"})
    if (variables.has(name))
      return true;
  return variables.has("PROCESS_ID") && variables.has("NUM_PROCESSES") &&
         variables.has("COORDINATOR_ADDRESS");
}

Result<Identity> bare_identity(Variables variables, const std::string& host_name) {
  const auto any = [&](std::string_view one, std::string_view other) {
    return variables.has(one) || variables.has(other);
  };
  const bool on_host = any("LOCAL_RANK", "LOCAL_WORLD_SIZE");
  const bool torch = on_host || any(kTorch.rank, kTorch.world);
  const bool pod = any(kPod.rank, kPod.world), alone_in_pod = pod && !on_host;
  const Names& names = torch ? kTorch : pod ? kPod : any(kJax.rank, kJax.world) ? kJax : kJaxJob;
  Identity identity;
  identity.source = STEP_SOURCE_VARIABLES;
  identity.source_text = "the variables " + std::string(names.rank) + " and " +
                         std::string(names.world) + (alone_in_pod ? " of a pod" : "");
  if (alone_in_pod)
    expect_alone_in_pod(variables, names);
  read_place(variables, identity, names);
  if (torch)
    read_host(variables, identity, host_name);
  else
    place_alone(identity, host_name);
  if (alone_in_pod) {
    variables.expect(kPod.world, identity.world, names.world);
    variables.expect(kPod.rank, identity.rank, names.rank);
  }
  read_address(variables, identity, names);
  if (variables.problem())
    return *variables.problem();
  derive_meeting_at_master(identity, "");
  return identity;
}

} // namespace dist_train
