// SPDX-License-Identifier: BSD-3-Clause
#include "spank/slurm_facts.h"

#include "libstep/core/task_counts.h"
#include "libstep/core/text.h"

#include <array>
#include <cstring>

namespace dist_train {

namespace {

constexpr std::uint32_t kLastSrunStep = 0xfffffff0; // above: batch, extern, interactive, pending

std::vector<std::string> read_command(spank_t spank) {
  char** arguments = nullptr;
  int count = 0;
  if (spank_get_item(spank, S_JOB_ARGV, &count, &arguments) != ESPANK_SUCCESS || !arguments)
    return {};
  return {arguments, arguments + count};
}

Error missing(const char* what) {
  return Error{std::string("Slurm does not tell ") + what,
               "the step's environment may have been changed by another plugin"};
}

// Numbers of the environment that Slurm sets for each task.
class Numbers {
public:
  explicit Numbers(const Environment& environment) : environment_(environment) {}

  std::uint32_t get(const char* name, std::uint64_t limit) {
    auto found = environment_.find(name);
    auto value = found == environment_.end() ? std::nullopt : parse_number(found->second, limit);
    if (!value && bad_.empty())
      bad_ = std::string(name) +
             (found == environment_.end() ? " is not set" : "=" + quoted(found->second));
    return static_cast<std::uint32_t>(value.value_or(0));
  }
  const std::string& bad() const { return bad_; }

private:
  const Environment& environment_;
  std::string bad_;
};

std::uint32_t slurm_release(spank_t spank) {
  char *major = nullptr, *minor = nullptr;
  if (spank_get_item(spank, S_SLURM_VERSION_MAJOR, &major) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_SLURM_VERSION_MINOR, &minor) != ESPANK_SUCCESS || !major || !minor)
    return 0;
  auto year = parse_number(major, 99), month = parse_number(minor, 99);
  return year && month ? static_cast<std::uint32_t>(*year * 100 + *month) : 0;
}

} // namespace

Result<TaskUser> read_user(spank_t spank) {
  uid_t uid = 0;
  gid_t gid = 0;
  if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
    return missing("whose the job is");
  return TaskUser{uid, gid};
}

Environment environment_of(char** strings) {
  Environment environment;
  for (; strings && *strings; ++strings)
    if (const char* equals = std::strchr(*strings, '='))
      environment[{*strings, static_cast<std::size_t>(equals - *strings)}] = equals + 1;
  return environment;
}

LaunchFacts read_launch(spank_t spank) {
  LaunchFacts launch;
  launch.command = read_command(spank);
  if (spank_get_item(spank, S_JOB_NNODES, &launch.nodes) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &launch.tasks) != ESPANK_SUCCESS)
    return {};
  return launch;
}

Result<bool> is_srun_step(spank_t spank) {
  std::uint32_t step = kLastSrunStep + 1;
  if (spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
    return missing("the step's number");
  return step <= kLastSrunStep;
}

Result<std::optional<std::string>> read_variable(spank_t spank, const char* name) {
  std::array<char, 4096> value{};
  auto rc = spank_getenv(spank, name, value.data(), static_cast<int>(value.size()));
  if (rc == ESPANK_ENV_NOEXIST)
    return std::optional<std::string>();
  if (rc != ESPANK_SUCCESS)
    return Error{std::string("cannot read ") + name + ": " + spank_strerror(rc),
                 "do not set SLURM_* variables in the job script"};
  return std::optional<std::string>(value.data());
}

std::optional<std::string> step_variable(spank_t spank, const char* name) {
  auto value = read_variable(spank, name);
  return value ? *std::move(value) : std::nullopt;
}

Result<SlurmFacts> read_facts(spank_t spank) {
  SlurmFacts facts;
  char** strings = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &strings) != ESPANK_SUCCESS || !strings)
    return missing("the task's environment");
  facts.environment = environment_of(strings);
  auto text = [&](const char* name) {
    auto found = facts.environment.find(name);
    return found == facts.environment.end() ? std::string() : found->second;
  };

  if (spank_get_item(spank, S_JOB_STEPID, &facts.id.step) != ESPANK_SUCCESS)
    return missing("the step's number");
  // Rank and job id come from the task's variables: SPANK's own count per component of a
  // heterogeneous step. slurmstepd sets them last, so that a user's values do not reach us.
  Numbers numbers(facts.environment);
  facts.id.job = numbers.get("SLURM_JOB_ID", 0xffffffff);
  facts.rank = numbers.get("SLURM_PROCID", kMaxTasks - 1);
  facts.local_rank = numbers.get("SLURM_LOCALID", kMaxTasks - 1);
  facts.world_size = numbers.get("SLURM_STEP_NUM_TASKS", kMaxTasks);
  if (!numbers.bad().empty())
    return Error{"a variable of Slurm's is wrong: " + numbers.bad(),
                 "do not set SLURM_* variables in the job script"};
  auto ranks = parse_id_set(text("SLURM_GTIDS"));
  if (!ranks)
    return ranks.error();
  facts.node_ranks = *std::move(ranks);
  if (facts.rank >= facts.world_size || facts.local_rank >= facts.node_ranks.size() ||
      facts.node_ranks[facts.local_rank] != facts.rank)
    return Error{"rank " + std::to_string(facts.rank) + " of " + std::to_string(facts.world_size) +
                     " does not fit SLURM_LOCALID=" + std::to_string(facts.local_rank) +
                     " and SLURM_GTIDS=" + quoted(text("SLURM_GTIDS")),
                 "do not set SLURM_* variables in the job script"};

  // Slurm's item S_SLURM_RESTART_COUNT is 0 in every step: only the batch script is told, by this
  // variable, too, which srun passes on. Without it this is the first run.
  facts.id.restart_count =
      static_cast<std::uint32_t>(parse_number(text("SLURM_RESTART_COUNT"), 0xffffffff).value_or(0));
  facts.slurm_release = slurm_release(spank);
  facts.node_name = text("SLURMD_NODENAME");
  facts.node_list = text("SLURM_STEP_NODELIST");
  facts.tasks_per_node = text("SLURM_STEP_TASKS_PER_NODE");
  facts.reserved_ports = text("SLURM_STEP_RESV_PORTS");
  facts.distribution = text("SLURM_DISTRIBUTION");
  facts.plane_size =
      static_cast<std::uint32_t>(parse_number(text("SLURM_DIST_PLANESIZE"), kMaxTasks).value_or(0));
  facts.command = read_command(spank);
  facts.heterogeneous = facts.environment.contains("SLURM_HET_SIZE");
  return facts;
}

Result<void> apply_changes(spank_t spank, const std::vector<EnvChange>& changes) {
  for (const auto& change : changes) {
    auto rc = change.value ? spank_setenv(spank, change.name.c_str(), change.value->c_str(), 1)
                           : spank_unsetenv(spank, change.name.c_str());
    if (rc != ESPANK_SUCCESS)
      return Error{"cannot set " + change.name + " for the task: " + spank_strerror(rc), ""};
  }
  return {};
}

} // namespace dist_train
