// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/exec.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libstep/core/devices.h"
#include "libstep/core/environment.h"
#include "libstep/core/placement.h"
#include "libstep/core/rank_map.h"
#include "libstep/core/report.h"
#include "libstep/core/sha256.h"
#include "libstep/core/text.h"
#include "libstep/identity_sources.h"
#include "libstep/introductions.h"
#include "libstep/os/affinity.h"
#include "libstep/os/interfaces.h"
#include "libstep/os/limits.h"
#include "libstep/os/port.h"
#include "libstep/os/rank_zero.h"
#include "libstep/session.h"
#include "libstep/tools/arguments.h"

namespace dist_train {
namespace {

constexpr double kMeetSeconds = 300;
constexpr std::size_t kOfferSize = 512;

// What rank 0 tells the others, as one line of words.
struct Offer {
  std::string address; // or a name that a launcher gave
  Ports ports;
  std::string token;
};

std::string encode(const Offer& offer) {
  std::string text = offer.address;
  for (const auto number : {offer.ports.master, offer.ports.store, offer.ports.jax,
                            offer.ports.spare, offer.ports.spare_count})
    text += " " + std::to_string(number);
  text += " " + offer.token;
  text.resize(kOfferSize);
  return text;
}

std::optional<Offer> decode_offer(std::string_view text) {
  const auto words = split(text.substr(0, text.find('\0')), ' ');
  if (words.size() != 7)
    return std::nullopt;
  std::array<std::uint16_t, 5> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = parse_number(words[i + 1], 65535);
    if (!number)
      return std::nullopt;
    numbers[i] = static_cast<std::uint16_t>(*number);
  }
  return Offer{std::string(words[0]),
               {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]},
               std::string(words[6])};
}

// Rank 0's ports are the step's reserved ones, or the first free block after the one at which the
// ranks have met. What a launcher has said stays: it knows how its hosts reach each other.
Result<Place> choose_place(const Identity& identity, const Environment& environment, bool one_node,
                           std::uint16_t told_port) {
  const bool in_slurm = identity.source == STEP_SOURCE_SLURM;
  std::optional<Ports> reserved;
  std::vector<std::string> srun_hosts;
  if (in_slurm && !environment.contains("SLURM_HET_SIZE")) {
    auto found = reserved_ports(value_of(environment, "SLURM_STEP_RESV_PORTS"));
    if (!found)
      return found.error();
    reserved = *found;
  }
  if (in_slurm)
    for (const char* name : {"SLURM_SRUN_COMM_HOST", "SLURM_LAUNCH_NODE_IPADDR"})
      if (const std::string host(value_of(environment, name)); !host.empty())
        srun_hosts.push_back(host);
  const StepNode node{identity.meeting, identity.node_name,
                      std::string(in_slurm ? value_of(environment, "SLURM_STEP_NODELIST") : "")};
  auto place = take_place(node, {}, reserved, one_node, srun_hosts);
  if (!place || in_slurm)
    return place;
  place->master.address = identity.master_address;
  if (told_port == 0)
    return place;
  place->master.ports.master = told_port;
  auto held = hold_port(told_port, false);
  if (!held)
    return held.error();
  place->held = *std::move(held);
  return place;
}

std::string interface_towards(const std::string& host) {
  const auto addresses = is_literal_address(host) ? std::vector<std::string>{host} : resolve(host);
  return addresses.empty() ? "" : source_towards(addresses.front()).interface;
}

struct Agreed {
  TaskPlan plan;
  Place place; // of rank 0; holds nothing in the others
};

// In a session of its own, whose ports are free again when it returns.
std::variant<Agreed, Refusal> agree(Session& session, const Environment& environment) {
  const auto told_port = session.identity.master_port;
  if (auto refused = open_session(session, kMeetSeconds))
    return *std::move(refused);
  const Identity& me = session.identity;
  auto met = introduce_ranks(session, kMeetSeconds);
  if (auto* refused = std::get_if<Refusal>(&met))
    return std::move(*refused);
  const auto& map = std::get<Result<RankMap>>(met); // without one the launcher's word has to do

  Agreed agreed;
  Collective request;
  request.number = ++session.collectives;
  request.pattern = Pattern::kBroadcast;
  request.length = kOfferSize;
  request.wait_ms = static_cast<std::int64_t>(kMeetSeconds * 1000);
  if (me.rank == 0) {
    std::array<char, 16> secret{};
    if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
      return Refusal{STEP_ERR_SYSTEM, {system_text("getrandom", errno)}};
    auto place = choose_place(me, environment, map && map->nodes.size() == 1, told_port);
    if (!place)
      return Refusal{STEP_ERR_SYSTEM, said_by({me.node_name, me.rank}, place.error())};
    agreed.place = *std::move(place);
    request.data = encode(Offer{agreed.place.master.address, agreed.place.master.ports,
                                to_hex({secret.data(), secret.size()})});
  }
  Reply told = session.client->call(request, request.wait_ms);
  if (told.code != STEP_OK)
    return Refusal{told.code, std::move(told.error)};
  const auto offer = decode_offer(told.body);
  if (!offer)
    return Refusal{STEP_ERR_PROTOCOL,
                   {"rank 0's offer of ports is malformed", "run one release of dist-train on all "
                                                            "nodes"}};
  auto& plan = agreed.plan;
  Variables variables(environment);
  if (in_slurm_step(variables))
    plan.id = {variables.number("SLURM_JOB_ID", 0, UINT32_MAX, 0),
               variables.number("SLURM_STEP_ID", 0, UINT32_MAX, 0)};
  plan.id.restart_count = me.restart_count;
  plan.rank = me.rank;
  plan.world_size = me.world;
  plan.local_rank = me.local_rank;
  plan.local_world_size = me.local_world;
  plan.node_rank = me.node_rank;
  plan.node_count = me.node_count;
  if (map) {
    plan.layout = layout_text(*map);
    plan.node_rank = node_rank_of(*map, me.rank);
    plan.node_count = static_cast<std::uint32_t>(map->nodes.size());
    plan.local_world_size = static_cast<std::uint32_t>(map->nodes[plan.node_rank].ranks.size());
  }
  plan.master_address = offer->address;
  plan.ports = offer->ports;
  plan.token = offer->token;
  if (me.world > 1) // a program alone may yet start others
    plan.interface = me.rank == 0 && me.source == STEP_SOURCE_SLURM
                       ? agreed.place.master.interface
                       : interface_towards(offer->address);
  const auto devices = task_devices(environment, plan.local_world_size, gpu_vendor());
  const auto cores = cores_of_task(environment, allowed_cpus(), plan.local_world_size);
  plan.cores = cores;
  plan.gpu_count = devices.count;
  plan.jax_devices = jax_device_ids(devices, plan.local_rank, plan.local_world_size, false);
  return agreed;
}

std::optional<Error> become_rank(Agreed agreed, const Environment& environment) {
  const std::pair<Fd*, int*> kept[] = {{&agreed.place.store, &agreed.plan.store_fd},
                                       {&agreed.place.held, &agreed.plan.port_fd},
                                       {&agreed.place.jax, &agreed.plan.jax_fd}};
  for (const auto& [socket, number] : kept) {
    if (!*socket)
      continue;
    auto fd = hand_over(std::move(*socket));
    if (!fd)
      return fd.error();
    *number = *fd;
  }
  const auto changes = task_environment(agreed.plan, {}, environment);
  for (const auto& change : changes.changes)
    if ((change.value ? ::setenv(change.name.c_str(), change.value->c_str(), 1)
                      : ::unsetenv(change.name.c_str())) != 0)
      return Error{system_text("cannot set " + change.name, errno)};
  if (agreed.plan.rank == 0)
    for (const auto& notice : changes.notices)
      std::fprintf(stderr, "dist-train exec: %s\n", notice.c_str());
  return std::nullopt;
}

// The plan of the step, in this process's environment and descriptors; or the exit code.
int make_plan(Identity identity) {
  const Environment environment = whole_environment();
  rlimit files{}; // a store in rank 0 raises its own limit; the program has the user's
  const bool limited = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  Session session;
  session.identity = std::move(identity);
  auto outcome = agree(session, environment);
  if (session.client)
    close_session(session);
  if (limited)
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  if (const auto* refused = std::get_if<Refusal>(&outcome))
    return complain("exec", refused->error, refused->code);
  if (auto error = become_rank(std::move(std::get<Agreed>(outcome)), environment))
    return complain("exec", *error, STEP_ERR_SYSTEM);
  return 0;
}

} // namespace

int run_exec(const std::vector<std::string>& words) {
  const bool dashes = !words.empty() && words.front() == "--";
  std::vector<char*> argv;
  for (auto word = words.begin() + (dashes ? 1 : 0); word != words.end(); ++word)
    argv.push_back(const_cast<char*>(word->c_str())); // exec() leaves them alone
  constexpr const char* kUsage = "dist-train exec -- PROGRAM [ARGUMENT]...";
  if (argv.empty())
    return complain("exec", {"no program", kUsage}, 2);
  if (!dashes && *argv.front() == '-')
    return complain("exec", {"no such option: " + quoted(argv.front()), kUsage}, 2);
  argv.push_back(nullptr);

  auto identity = find_identity(read_environment(), host_name());
  if (!identity)
    return complain("exec", identity.error(), STEP_ERR_IDENTITY);
  const bool planned =
      identity->source == STEP_SOURCE_PLUGIN || identity->source == STEP_SOURCE_TORCHRUN;
  if (!planned)
    if (const int code = make_plan(*std::move(identity)); code != 0)
      return code;
  ::execvp(argv.front(), argv.data());
  const int reason = errno;
  return complain("exec", {system_text("cannot run " + quoted(argv.front()), reason)},
                  reason == ENOENT ? 127 : 126);
}

} // namespace dist_train
