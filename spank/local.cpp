// SPDX-License-Identifier: BSD-3-Clause
#include "spank/local.h"

#include "spank/broker.h"
#include "spank/decision.h"
#include "spank/names.h"
#include "spank/slurm_facts.h"
#include "spank/slurm_log.h"
#include "spank/srun_line.h"
#include "spank/srun_ports.h"

#include "libstep/core/mode_checks.h"
#include "libstep/os/port.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace dist_train::local {

namespace {

struct State {
  Voices voices;
  std::optional<Error> plugstack_error;
  std::string inherited_text;
  bool has_inherited = false;
  int callbacks = 0;
  bool kill_set = false;
  CpuBind cpu_bind = CpuBind::kUnsaid; // of srun's own option, or its variable
  LaunchFacts launch;                  // what srun's line says of numbers
  bool in_salloc = false;              // the srun of its interactive step: a shell, none of ours
  Options options;                     // decided in init_post_opt
  std::unique_ptr<Broker> broker;
};

State* state = nullptr; // from init to exit; absent when init failed, which Slurm overlooks

const char* inherited_option() {
  const char* value = std::getenv(kPassedOnVariable);
  return value ? value : std::getenv(kPassedOnVariable + sizeof "SLURM_SPANK_" - 1);
}

std::optional<Options> user_variable(std::optional<Error>& error) {
  const char* text = std::getenv(kUserVariable);
  if (!text || !*text)
    return std::nullopt;
  auto options = parse_options(text, OptionSource::kEnvironment);
  if (options)
    return *std::move(options);
  error = options.error();
  error->message += " in the variable " + std::string(kUserVariable);
  return std::nullopt;
}

std::optional<Options> if_valid(const std::string& text) {
  auto options = parse_options(text);
  return options ? std::optional<Options>(*std::move(options)) : std::nullopt;
}

// Slurm reads SLURM_KILL_BAD_EXIT before any option of ours is known, so the decision is taken on a
// preview of it; what is wrong in there is reported when Slurm hands it over.
void preview_kill(State& known, const SrunLine& line) {
  std::optional<Error> ignored;
  Voices voices = known.voices;
  if (line.has_dist_train)
    voices.line = if_valid(line.dist_train);
  voices.environment = user_variable(ignored);
  if (known.has_inherited)
    voices.inherited = if_valid(known.inherited_text);
  auto options = decide(voices);
  if (is_on(options) && options.kill.value_or(true) && !line.kills_on_bad_exit &&
      !std::getenv(kSlurmKillVariable))
    known.kill_set = setenv(kSlurmKillVariable, "1", 1) == 0;
}

// No return code of an optional plugin ends srun here; nothing is allocated yet.
[[noreturn]] void end_command(const Error& error) {
  log_error(error);
  _exit(1);
}

// For the tasks, through srun's environment.
void tell_tasks(const char* name, const std::string& value) {
  if (setenv(name, value.c_str(), 1) != 0)
    end_command({std::string("cannot set ") + name + ": " + std::strerror(errno), ""});
}

void warn_of_ports(const Options& options) {
  auto range = options.port.value_or(kDefaultPorts);
  auto ephemeral = ephemeral_ports();
  if (overlap(range, ephemeral))
    tell_user("port=" + std::to_string(range.low) + "-" + std::to_string(range.high) +
              " overlaps the ports of outgoing connections (" + std::to_string(ephemeral.low) +
              "-" + std::to_string(ephemeral.high) + "); a port may be taken when a step begins");
}

void open_broker() {
  auto broker = Broker::open(site_srun_port_range());
  if (!broker)
    end_command(broker.error());
  state->broker = *std::move(broker);
  tell_tasks(kTokenVariable, token_text(state->broker->token()));
  tell_tasks(kBrokerVariable, std::to_string(state->broker->port()));
}

} // namespace

int init(bool in_srun, const std::vector<std::string>& plugstack) {
  exit();
  auto fresh = std::make_unique<State>();
  std::string words;
  for (const auto& word : plugstack)
    words += (words.empty() ? "" : ",") + word;
  auto site = parse_options(words, OptionSource::kPlugstack);
  if (site)
    fresh->voices.plugstack = *std::move(site);
  else
    fresh->plugstack_error = site.error();
  if (in_srun) {
    for (const char* name : {kOptionsVariable, kTokenVariable, kBrokerVariable, kKillVariable})
      unsetenv(name); // of an outer step, or somebody's invention
    if (const char* inherited = inherited_option()) {
      fresh->has_inherited = true;
      fresh->inherited_text = inherited;
    }
    auto line = read_srun_line(own_arguments());
    fresh->in_salloc = line.interactive;
    fresh->launch.nodes = line.nodes;
    fresh->launch.tasks = line.tasks;
    fresh->voices.by_launcher = line.by_launcher;
    fresh->cpu_bind = line.cpu_bind;
    // "none" in there is no wish of the user's: Slurm leaves it in the tasks of an outer step.
    if (const char* variable = std::getenv("SLURM_CPU_BIND");
        variable && line.cpu_bind == CpuBind::kUnsaid && cpu_bind_of(variable) == CpuBind::kBinds)
      fresh->cpu_bind = CpuBind::kBinds;
    if (!line.interactive)
      preview_kill(*fresh, line);
  }
  state = fresh.release();
  return 0;
}

int option(const char* text) {
  if (!state)
    return -1;
  auto options = parse_options(text ? text : "");
  if (!options) {
    log_error(options.error());
    return -1;
  }
  if (options->mode == Mode::kHelp) {
    std::fputs(options_help().c_str(), stdout);
    std::fflush(stdout);
    _exit(0); // as --cpu-bind=help does; any other return lets the command go on or fails it
  }
  // Slurm hands over what was passed on before what stands on the line; each call replaces.
  bool passed_on = state->has_inherited && state->callbacks++ == 0;
  (passed_on ? state->voices.inherited : state->voices.line) = *std::move(options);
  return 0;
}

int init_post_opt(bool in_srun) {
  if (!state)
    return std::getenv(kUserVariable) ? -1 : 0;
  if (state->in_salloc)
    return 0;
  std::optional<Error> error;
  state->voices.environment = user_variable(error);
  if (error)
    end_command(*error);
  if (!in_srun || state->broker) // the second and later components of a heterogeneous step
    return 0;
  state->options = decide(state->voices, state->cpu_bind);
  const auto& v = state->voices;
  if (state->options.mode == Mode::kOff) {
    // Said aloud, since Slurm still hands the nodes an option that SLURM_DIST_TRAIN overrides.
    if (v.line || v.environment || v.inherited)
      tell_tasks(kOptionsVariable, to_text(Mode::kOff));
    else if (state->plugstack_error) // whoever did not ask sees it with srun -v only
      slurm_verbose("dist-train: the site's plugstack line counts for nothing: %s",
                    state->plugstack_error->message.c_str());
    return 0;
  }
  if (state->plugstack_error)
    end_command({"the site's plugstack line: " + state->plugstack_error->message,
                 state->plugstack_error->hint, state->plugstack_error->caret});
  if (auto refused = refused_launch(state->options, state->launch))
    end_command(*refused);
  warn_of_ports(state->options);
  open_broker();
  tell_tasks(kOptionsVariable, canonical_text(state->options));
  if (state->kill_set)
    tell_tasks(kKillVariable, "1");
  return 0;
}

bool asked() {
  return std::getenv(kUserVariable) ||
         (state && (state->voices.line || state->voices.inherited || state->broker));
}

int local_user_init(const LaunchFacts& launch) {
  if (!state || !state->broker)
    return 0;
  for (const auto& warning : launch_warnings(launch, environment_of(environ), state->options))
    tell_user(warning);
  // A rendezvous that cannot start is closed: tasks are refused, and do without it at once.
  auto broker = std::move(state->broker);
  if (auto started = broker->start(state->options); !started) {
    log_error(started.error());
    return -1;
  }
  state->broker = std::move(broker);
  return 0;
}

// srun calls this when it exits, its work done. Tasks that were quicker than we may have left it
// the code 0, and a step that we have ended is no success.
void exit() {
  if (state && state->broker) {
    state->broker->stop();
    if (state->broker->ended_step()) {
      std::fflush(nullptr);
      _exit(1);
    }
  }
  delete state;
  state = nullptr;
}

} // namespace dist_train::local
