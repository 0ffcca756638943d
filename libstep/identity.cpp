// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/identity.h"

#include <algorithm>

#include "libstep/core/sha256.h"
#include "libstep/core/slurm_job.h"
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {

const std::string* Variables::find(std::string_view name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
}

std::string Variables::text(std::string_view name) const {
  const std::string* value = find(name);
  return value ? *value : std::string();
}

std::string Variables::need_text(std::string_view name, std::string_view hint) {
  if (!has(name))
    complain({std::string(name) + " is not set, although other variables of its launcher are",
              std::string(hint)});
  return text(name);
}

std::uint32_t Variables::number(std::string_view name, std::uint32_t low, std::uint32_t high,
                                std::uint32_t when_missing) {
  const std::string* value = find(name);
  if (!value)
    return when_missing;
  const auto parsed = parse_number(*value, high);
  if (parsed && *parsed >= low)
    return static_cast<std::uint32_t>(*parsed);
  complain({std::string(name) + "=" + quoted(*value) + " is not a number from " +
                std::to_string(low) + " to " + std::to_string(high),
            "unset it, or correct what sets it"});
  return when_missing;
}

std::uint32_t Variables::need_number(std::string_view name, std::uint32_t low, std::uint32_t high,
                                     std::string_view hint) {
  (void)need_text(name, hint);
  return number(name, low, high, low);
}

void Variables::expect(std::string_view name, std::uint32_t value, std::string_view because) {
  const auto seen = number(name, 0, UINT32_MAX, value);
  if (seen != value)
    complain({std::string(name) + "=" + std::to_string(seen) + " contradicts " +
                  std::string(because) + ", which makes it " + std::to_string(value),
              "unset " + std::string(name) + ", or start the program by one launcher only"});
}

void Variables::complain(Error error) {
  if (!problem_)
    problem_ = std::move(error);
}

bool in_slurm_step(const Variables& variables) {
  // A batch script, an extern or an interactive step has a reserved step number or none at all.
  // Slurm 26.05 writes the reserved ones with a sign: -6 where earlier releases have 4294967290.
  constexpr std::uint32_t kReservedSteps = 0xfffffff0;
  const std::string text = variables.text("SLURM_STEP_ID");
  const auto step = parse_number(text, UINT32_MAX);
  const bool reserved = text.empty() || text.starts_with('-') || (step && *step >= kReservedSteps);
  return !reserved && variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NUM_TASKS");
}

void derive_meeting(Identity& identity, std::string_view shared) {
  const Digest digest = sha256("libstep meeting\n" + std::string(shared));
  identity.token = to_hex(as_text(digest).substr(0, 16));
  const auto word = [&](std::size_t at) {
    return std::uint32_t{digest[at]} << 24 | std::uint32_t{digest[at + 1]} << 16 |
           std::uint32_t{digest[at + 2]} << 8 | digest[at + 3];
  };
  identity.meeting = {word(16), word(20), 0};
}

void derive_meeting_at_master(Identity& identity, const std::string& run) {
  identity.store_hosts = {identity.master_address};
  derive_meeting(identity, "launcher\n" + identity.master_address + "\n" +
                               std::to_string(identity.master_port) + "\n" + run + "\n" +
                               std::to_string(identity.restart_count) + "\n" +
                               std::to_string(identity.world));
}

void place_in(Identity& identity, const RankMap& map) {
  identity.nodes.resize(identity.world);
  for (const auto& node : map.nodes)
    for (const auto rank : node.ranks)
      identity.nodes[rank] = node.name;
  identity.node_rank = node_rank_of(map, identity.rank);
  identity.node_count = static_cast<std::uint32_t>(map.nodes.size());
  const NodeRanks& here = map.nodes[identity.node_rank];
  identity.node_name = here.name;
  identity.local_world = static_cast<std::uint32_t>(here.ranks.size());
  const auto own = std::lower_bound(here.ranks.begin(), here.ranks.end(), identity.rank);
  identity.local_rank = static_cast<std::uint32_t>(own - here.ranks.begin());
}

void expect_host_name(Variables& variables, std::string_view name, const std::string& address) {
  if (address.size() > kMaxHostName)
    variables.complain(
        {std::string(name) + "=" + quoted(address) + " is longer than a host name can be",
         std::string(kAddressHint)});
}

void place_alone(Identity& identity, const std::string& host_name) {
  identity.node_rank = identity.rank;
  identity.node_count = identity.world;
  identity.node_name = host_name;
  identity.nodes.resize(identity.world);
  identity.nodes[identity.rank] = host_name;
}

namespace {

Identity single_identity(const std::string& host_name) {
  Identity identity;
  identity.source = STEP_SOURCE_SINGLE;
  identity.source_text = "a single process";
  identity.node_name = host_name;
  identity.nodes = {host_name};
  identity.master_address = "127.0.0.1";
  derive_meeting(identity, "single");
  return identity;
}

void read_strategy(Variables& variables, Identity& identity) {
  identity.strategy = variables.text("DIST_TRAIN_STRATEGY");
  if (!identity.strategy.empty() && !strategy_of(identity.strategy))
    variables.complain(
        {"DIST_TRAIN_STRATEGY=" + quoted(identity.strategy) + " is none of fsdp, hsdp, zero2, ddp",
         "leave the variables of srun --dist-train as they are"});
}

// How many processes there are, by launchers that are not known here any further.
constexpr std::string_view kOtherSizes[] = {"PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE",
                                            "HOROVOD_SIZE", "JSM_NAMESPACE_SIZE"};

void expect_no_launcher(Variables& variables) {
  for (const auto name : kOtherSizes)
    if (const auto size = variables.number(name, 1, kMaxWorld, 1); size > 1)
      variables.complain({std::string(name) + "=" + std::to_string(size) +
                              " is of a launcher that libstep does not know, and each of its "
                              "processes would be alone",
                          "give each RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; for a process "
                          "that is to be alone unset " +
                              std::string(name)});
}

Result<Identity> from_first_source(const Environment& environment, const std::string& host_name) {
  Variables variables(environment);
  // torchrun or Ray inside a task gives each of its workers a rank of its own; what surrounds it
  // then describes the launcher, not the worker. The plugin removes what was inherited of either.
  if (variables.has("TORCHELASTIC_RUN_ID"))
    return torchrun_identity(variables, host_name);
  const auto mode = mode_of(variables.text("DIST_TRAIN_MODE"));
  if (mode && launches_ranks(*mode) && variables.has("RANK"))
    return bare_identity(variables, host_name);
  if (variables.has("DIST_TRAIN_VERSION"))
    return plugin_identity(variables, host_name);
  if (by_mpirun(variables))
    return mpirun_identity(variables, host_name);
  if (in_slurm_step(variables))
    return slurm_identity(variables, host_name);
  if (has_bare_variables(variables))
    return bare_identity(variables, host_name);
  Identity single = single_identity(host_name);
  single.restart_count = variables.number("SLURM_RESTART_COUNT", 0, UINT32_MAX, 0);
  expect_no_launcher(variables);
  if (variables.problem())
    return *variables.problem();
  return single;
}

} // namespace

Result<Identity> find_identity(const Environment& environment, const std::string& host_name) {
  auto identity = from_first_source(environment, host_name);
  if (!identity)
    return identity;
  identity->job = job_text(environment);
  Variables variables(environment);
  if (variables.has("SLURM_JOB_END_TIME"))
    identity->job_end = variables.number("SLURM_JOB_END_TIME", 0, UINT32_MAX, 0);
  if (variables.has("DIST_TRAIN_VERSION")) // also for what torchrun starts in there
    read_strategy(variables, *identity);
  if (variables.problem())
    return *variables.problem();
  return identity;
}

} // namespace dist_train
