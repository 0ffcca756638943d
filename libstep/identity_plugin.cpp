// SPDX-License-Identifier: BSD-3-Clause
// srun --dist-train: the plugin tells everything; what other variables say must agree.
#include "libstep/core/rank_map.h"
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {
namespace {

bool is_token(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The layout is left out where it would be too long for the environment.
void read_layout(Variables& variables, Identity& identity, bool one_a_node,
                 const std::string& host_name) {
  const std::string text = variables.text("DIST_TRAIN_LAYOUT");
  if (text.empty() && one_a_node)
    return place_alone(identity, host_name);
  identity.nodes.resize(identity.world);
  identity.node_name = host_name;
  if (text.empty()) {
    identity.local_world = variables.need_number("LOCAL_WORLD_SIZE", 1, identity.world);
    identity.local_rank = variables.need_number("LOCAL_RANK", 0, identity.local_world - 1);
    identity.node_count = variables.need_number("GROUP_WORLD_SIZE", 1, identity.world);
    identity.node_rank = variables.need_number("NODE_RANK", 0, identity.node_count - 1);
    identity.nodes[identity.rank] = host_name;
    return;
  }
  const auto map = parse_layout(text);
  if (!map)
    return variables.complain(
        {"DIST_TRAIN_LAYOUT: " + map.error().message, map.error().hint, map.error().caret});
  if (world_size(*map) != identity.world)
    return variables.complain({"DIST_TRAIN_LAYOUT=" + quoted(text) + " has " +
                                   std::to_string(world_size(*map)) +
                                   " ranks, WORLD_SIZE=" + std::to_string(identity.world),
                               "leave the variables of srun --dist-train as they are; a container "
                               "plugin that plugstack.conf lists after dist-train changes them"});
  place_in(identity, *map);
  variables.expect("LOCAL_RANK", identity.local_rank, "DIST_TRAIN_LAYOUT");
  variables.expect("LOCAL_WORLD_SIZE", identity.local_world, "DIST_TRAIN_LAYOUT");
  variables.expect("NODE_RANK", identity.node_rank, "DIST_TRAIN_LAYOUT");
}

// JOB.STEP: it is shown and named in errors as it is.
std::string step_of(Variables& variables) {
  auto text = variables.need_text("DIST_TRAIN_STEP");
  auto parts = split(text, '.');
  if (!text.empty() && !(parts.size() == 2 && parse_number(parts[0], UINT32_MAX) &&
                         parse_number(parts[1], UINT32_MAX)))
    variables.complain({"DIST_TRAIN_STEP=" + quoted(text) + " is not a job and a step, as 4711.0",
                        "leave the variables of srun --dist-train as they are"});
  return text;
}

// An srun inside a task of the step inherits the variables of the step around it.
void expect_own_step(Variables& variables, const std::string& step) {
  if (!in_slurm_step(variables) || variables.has("SLURM_HET_SIZE"))
    return;
  const std::string here = variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
  if (here != step)
    variables.complain({"DIST_TRAIN_STEP=" + quoted(step) + " is not this step, " + quoted(here) +
                            ": the variables were inherited from a step around it",
                        "give the inner srun --dist-train, too, or unset the DIST_TRAIN_* "
                        "variables before it"});
}

// The plugin's ranks are Slurm's.
void expect_own_rank(Variables& variables, std::uint32_t world) {
  if (!in_slurm_step(variables))
    return;
  const auto given = std::to_string(variables.number("SLURM_PROCID", 0, world - 1, 0));
  const auto rank = variables.text("RANK");
  if (!rank.empty() && rank != given)
    variables.complain(
        {"RANK=" + quoted(rank) + " was set by someone after the plugin, which gave rank " + given +
             " of " + std::to_string(world) + " (SLURM_PROCID)",
         "look for what sets RANK: a TaskProlog, a module, the job's script, or a container "
         "plugin that plugstack.conf lists after dist-train"});
}

} // namespace

Result<Identity> plugin_identity(Variables variables, const std::string& host_name) {
  if (variables.text("DIST_TRAIN_VERSION") != "1")
    return Error{
        "DIST_TRAIN_VERSION=" + quoted(variables.text("DIST_TRAIN_VERSION")) +
            " is of a plugin that this library, which knows version 1, does not understand",
        "install libstep and the plugin from one release"};
  Identity identity;
  identity.source = STEP_SOURCE_PLUGIN;
  identity.step_id = step_of(variables);
  // A task that starts ranks has no RANK of its own; it is what Slurm says.
  const auto mode = mode_of(variables.text("DIST_TRAIN_MODE")).value_or(Mode::kTorch);
  const bool launches = launches_ranks(mode);
  identity.world =
      variables.need_number(launches ? "SLURM_STEP_NUM_TASKS" : "WORLD_SIZE", 1, kMaxWorld);
  expect_own_step(variables, identity.step_id);
  if (!launches)
    expect_own_rank(variables, identity.world);
  identity.rank = variables.need_number(launches ? "SLURM_PROCID" : "RANK", 0, identity.world - 1);
  if (!launches)
    expect_mpirun_to_agree(variables, identity, "srun --dist-train around it");
  if (!variables.problem())
    read_layout(variables, identity, launches, host_name);

  identity.source_text = "srun --dist-train (step " + identity.step_id + ")";
  identity.restart_count = variables.number("DIST_TRAIN_RESTART_COUNT", 0, UINT32_MAX, 0);
  identity.token = variables.need_text("DIST_TRAIN_TOKEN");
  if (!identity.token.empty() && !is_token(identity.token)) // its value stays out of messages
    variables.complain({"DIST_TRAIN_TOKEN is not 32 lower-case hexadecimal digits, but " +
                            std::to_string(identity.token.size()) + " bytes of something else",
                        "leave the variables of srun --dist-train as they are"});
  const std::string store = variables.need_text("DIST_TRAIN_STORE");
  if (!store.empty()) {
    auto endpoint = parse_endpoint(store);
    if (endpoint)
      identity.store = *std::move(endpoint);
    else
      variables.complain({"DIST_TRAIN_STORE: " + endpoint.error().message, endpoint.error().hint});
  }
  if (mode == Mode::kRay) { // whose head has the port
    identity.master_address = identity.store ? identity.store->host : "";
  } else {
    identity.master_address = variables.need_text("MASTER_ADDR");
    identity.master_port =
        static_cast<std::uint16_t>(variables.need_number("MASTER_PORT", 1, 65535));
  }
  if (variables.has("DIST_TRAIN_BROKER")) {
    auto broker = parse_endpoint(variables.text("DIST_TRAIN_BROKER"));
    if (broker)
      identity.broker = *std::move(broker);
    else
      variables.complain({"DIST_TRAIN_BROKER: " + broker.error().message, broker.error().hint});
  }
  constexpr std::uint32_t kMaxFd = 0x7fffffff;
  if (identity.rank == 0 && variables.has("DIST_TRAIN_STORE_FD"))
    identity.store_fd = variables.number("DIST_TRAIN_STORE_FD", 3, kMaxFd, 3);
  if (identity.rank == 0 && variables.has("DIST_TRAIN_PORT_FD"))
    identity.port_fd = variables.number("DIST_TRAIN_PORT_FD", 3, kMaxFd, 3);
  if (variables.problem())
    return *variables.problem();
  return identity;
}

} // namespace dist_train
