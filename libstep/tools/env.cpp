// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/env.h"

#include <cstdio>
#include <utility>

#include "libstep/core/text.h"
#include "libstep/session.h"
#include "libstep/tools/json.h"

namespace dist_train {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string printable(const std::string& text) {
  const std::string shown = quoted(text, 400);
  return shown.substr(1, shown.size() - 2);
}

// The secret is nobody's business on a terminal.
void hide_token(Environment& environment) {
  if (const auto token = environment.find("DIST_TRAIN_TOKEN"); token != environment.end())
    token->second = "(" + std::to_string(token->second.size()) + " digits, hidden)";
}

Rows text_rows(const Identity& identity) {
  const auto of = [](std::uint32_t part, std::uint32_t whole) {
    return std::to_string(part) + " of " + std::to_string(whole);
  };
  std::string master = "chosen by rank 0 in step_open()";
  if (identity.master_port != 0)
    master = host_port_text(identity.master_address, identity.master_port);
  Rows rows = {{"source", identity.source_text},
               {"rank", of(identity.rank, identity.world)},
               {"local rank", of(identity.local_rank, identity.local_world)},
               {"node", of(identity.node_rank, identity.node_count) + ", " + identity.node_name},
               {"master", master}};
  if (identity.store)
    rows.emplace_back("store", host_port_text(identity.store->host, identity.store->port));
  if (!identity.strategy.empty())
    rows.emplace_back("strategy", identity.strategy);
  if (identity.restart_count > 0)
    rows.emplace_back("restarts", std::to_string(identity.restart_count));
  return rows;
}

void print_text(const Identity& identity, const Environment& environment) {
  for (const auto& [name, value] : text_rows(identity))
    std::printf("%-12s %s\n", name.c_str(), printable(value).c_str());
  std::printf("\n");
  for (const auto& [name, value] : environment)
    std::printf("%s=%s\n", printable(name).c_str(), printable(value).c_str());
}

const char* source_word(step_source_t source) {
  switch (source) {
  case STEP_SOURCE_PLUGIN:
    return "plugin";
  case STEP_SOURCE_SLURM:
    return "slurm";
  case STEP_SOURCE_TORCHRUN:
    return "torchrun";
  case STEP_SOURCE_MPIRUN:
    return "mpirun";
  case STEP_SOURCE_VARIABLES:
    return "variables";
  case STEP_SOURCE_SINGLE:
    return "single";
  }
  return "?";
}

void print_json(const Identity& identity, const Environment& environment) {
  const Rows texts = {
      {"source", source_word(identity.source)}, {"source_text", identity.source_text},
      {"node_name", identity.node_name},        {"step", identity.step_id},
      {"strategy", identity.strategy},          {"master_address", identity.master_address}};
  const std::pair<const char*, std::uint32_t> numbers[] = {
      {"rank", identity.rank},
      {"world_size", identity.world},
      {"local_rank", identity.local_rank},
      {"local_world_size", identity.local_world},
      {"node_rank", identity.node_rank},
      {"node_count", identity.node_count},
      {"restart_count", identity.restart_count},
      {"master_port", identity.master_port}};
  std::string out = "{";
  for (const auto& [name, value] : texts)
    out += json_text(name) + ": " + json_text(value) + ", ";
  for (const auto& [name, value] : numbers)
    out += json_text(name) + ": " + std::to_string(value) + ", ";
  out += "\"variables\": {";
  const char* comma = "";
  for (const auto& [name, value] : environment) {
    out += comma + json_text(name) + ": " + json_text(value);
    comma = ", ";
  }
  std::printf("%s}}\n", out.c_str());
}

} // namespace

int run_env(const std::vector<std::string>& arguments) {
  bool json = false;
  for (const auto& argument : arguments) {
    if (argument != "--json") {
      std::fprintf(stderr, "dist-train env: unknown argument %s; it takes --json only\n",
                   quoted(argument).c_str());
      return 2;
    }
    json = true;
  }
  Environment environment = read_environment();
  const auto identity = find_identity(environment, host_name());
  if (!identity) {
    std::fprintf(stderr, "dist-train env: %s\n", identity.error().message.c_str());
    if (!identity.error().hint.empty())
      std::fprintf(stderr, "dist-train env:   %s\n", identity.error().hint.c_str());
    return STEP_ERR_IDENTITY;
  }
  hide_token(environment);
  (json ? print_json : print_text)(*identity, environment);
  return 0;
}

} // namespace dist_train
