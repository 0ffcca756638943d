// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <variant>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstep/introductions.h"
#include "libstep/os/port.h"
#include "libstep/slurm_link.h"

extern char** environ;

namespace dist_train {
namespace {

// Without the plugin: so many ports of the sequence are tried, by the server and by the ranks.
constexpr std::uint32_t kPortsTried = 16;

Refusal refuse(step_err_t code, Error error) { return {code, std::move(error)}; }

std::string rank_zero_text(const Identity& identity) {
  const std::string node = identity.nodes.empty() ? "" : identity.nodes[0];
  return node.empty() ? "rank 0" : "rank 0 (" + node + ", local 0)";
}

Result<Socket> find_listener(const Identity& identity) {
  if (!identity.store) {
    Error last;
    for (std::uint32_t i = 0; i < kPortsTried; ++i) {
      auto fd = listen_on(port_candidate(identity.meeting, kDefaultPorts, i).store, true);
      if (fd)
        return Socket(*std::move(fd));
      last = fd.error();
    }
    return Error{"rank 0 finds no free port for its store; the last of " +
                     std::to_string(kPortsTried) + ": " + last.message,
                 last.hint};
  }
  Error why{"DIST_TRAIN_STORE_FD is not set in rank 0"};
  if (identity.store_fd) {
    auto taken = take_inherited("DIST_TRAIN_STORE_FD", static_cast<int>(*identity.store_fd), true);
    if (taken && local_port(*taken) == identity.store->port)
      return taken;
    why = taken ? Error{"DIST_TRAIN_STORE_FD=" + std::to_string(*identity.store_fd) +
                        " listens on port " + std::to_string(local_port(*taken)) +
                        ", not on that of DIST_TRAIN_STORE"}
                : taken.error();
  }
  // A wrapper may have closed the descriptor, and with it freed the port.
  auto fd = listen_on(identity.store->port, true);
  if (fd)
    return Socket(*std::move(fd));
  return Error{why.message + "; and " + fd.error().message,
               "let the wrapper around the program keep its inherited descriptors open (in Python: "
               "close_fds=False), or replace itself with exec"};
}

// Where no launcher names a port for the program's own rank 0, ours holds one.
Result<Socket> choose_program_port(Identity& identity) {
  Error last;
  for (std::uint32_t i = 0; i < kPortsTried; ++i) {
    const auto port =
        identity.world == 1 ? 0 : port_candidate(identity.meeting, kDefaultPorts, i).master;
    auto fd = hold_port(static_cast<std::uint16_t>(port), false);
    if (fd) {
      identity.master_port = port_of(*fd);
      return Socket(*std::move(fd));
    }
    last = fd.error();
  }
  return Error{"rank 0 finds no free port for the program: " + last.message, last.hint};
}

// The held socket keeps MASTER_PORT free of others while the program runs, but is nothing that the
// program's children should inherit. One that a wrapper has closed meanwhile is no error.
void keep_to_this_process(std::uint32_t fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(static_cast<int>(fd), SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
      type == SOCK_STREAM)
    (void)::fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);
}

// Each rank is a descriptor in rank 0's process, and the usual soft limit is 1024.
void make_room_for(std::uint32_t world) {
  rlimit limit{};
  const rlim_t wanted = rlim_t{world} + 512;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::variant<Socket, Refusal> serve(Session& session, std::uint32_t generation) {
  Identity& identity = session.identity;
  ServerOptions options;
  options.nodes = identity.nodes;
  options.token = identity.token;
  options.generation = generation;
  options.silence_seconds = session.silence_seconds;
  options.stop_seconds = session.stop_seconds;
  options.time_left = [identity](const std::stop_token& unwanted) {
    return time_left_ms(identity, unwanted);
  };
  if (identity.port_fd)
    keep_to_this_process(*identity.port_fd);
  if (identity.master_port == 0) {
    auto held = choose_program_port(identity);
    if (!held)
      return refuse(STEP_ERR_SYSTEM, held.error());
    session.held_port = *std::move(held);
    options.program_port = identity.master_port;
  }
  if (identity.world > 1) {
    make_room_for(identity.world);
    auto listener = find_listener(identity);
    if (!listener)
      return refuse(STEP_ERR_SYSTEM, listener.error());
    options.listener = *std::move(listener);
    session.store_address =
        identity.store ? host_port_text(identity.store->host, identity.store->port)
                       : host_port_text(identity.store_hosts.size() == 1 ? identity.store_hosts[0]
                                                                         : identity.node_name,
                                        local_port(options.listener));
  }
  Socket own_end;
  auto server = Server::start(std::move(options), own_end);
  if (!server)
    return refuse(STEP_ERR_SYSTEM, server.error());
  session.server = *std::move(server);
  return own_end;
}

std::variant<Socket, Refusal> join(Session& session, std::uint32_t generation, double seconds) {
  Identity& identity = session.identity;
  JoinPlan plan;
  if (identity.store)
    plan.places = {*identity.store};
  else
    for (std::uint32_t i = 0; i < kPortsTried; ++i)
      for (const auto& host : identity.store_hosts)
        plan.places.push_back({host, port_candidate(identity.meeting, kDefaultPorts, i).store});
  plan.store_rank_text = rank_zero_text(identity);
  plan.token = identity.token;
  plan.rank = identity.rank;
  plan.world = identity.world;
  plan.generation = generation;
  plan.seconds = seconds;
  auto outcome = join_store(plan);
  if (auto* refusal = std::get_if<Refusal>(&outcome))
    return std::move(*refusal);
  auto& joined = std::get<Joined>(outcome);
  session.store_address = host_port_text(joined.place.host, joined.place.port);
  if (identity.master_port == 0)
    identity.master_port = joined.program_port;
  return std::move(joined.stream);
}

} // namespace

std::optional<Refusal> open_session(Session& session, double connect_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  // A second step_open() of all ranks must not meet the store of the first.
  static std::atomic<std::uint32_t> opened{0};
  const std::uint32_t generation = ++opened;

  session.process = ::getpid();
  auto stream = session.identity.rank == 0 ? serve(session, generation)
                                           : join(session, generation, connect_seconds);
  if (auto* refusal = std::get_if<Refusal>(&stream))
    return std::move(*refusal);
  const Identity& identity = session.identity;
  auto client =
      Client::start(std::move(std::get<Socket>(stream)),
                    {identity.rank, identity.world, identity.nodes[0], session.silence_seconds});
  if (!client)
    return refuse(STEP_ERR_SYSTEM, client.error());
  session.client = *std::move(client);
  // A launcher that named every rank's node here did so in rank 0, too.
  const auto& nodes = session.identity.nodes;
  if (std::find(nodes.begin(), nodes.end(), "") != nodes.end()) {
    Reply reply =
        session.client->call(Introduce{session.identity.node_name.substr(0, kMaxNodeName)});
    if (reply.code != STEP_OK)
      return refuse(reply.code, std::move(reply.error));
  }
  if (identity.layout_told)
    return std::nullopt;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  auto met = introduce_ranks(session, std::max(0.0, connect_seconds - spent.count()));
  if (auto* refusal = std::get_if<Refusal>(&met))
    return std::move(*refusal);
  const auto& map = std::get<Result<RankMap>>(met);
  if (!map)
    return refuse(STEP_ERR_IDENTITY, map.error());
  place_in(session.identity, *map);
  return std::nullopt;
}

void close_session(Session& session) {
  // A store that is gone takes no goodbye, and needs none.
  (void)session.client->call(Goodbye{});
  session.client.reset();
  session.signals.reset();
  if (session.server)
    session.server->stop(session.linger_seconds);
}

Environment whole_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

// What tells who a process is, besides a task's own variables.
constexpr std::array<std::string_view, 8> kPrefixes = {
    "DIST_TRAIN_", "SLURM_",           "SLURMD_", "TORCHELASTIC_",
    "PET_",        "OMPI_COMM_WORLD_", "PMI_",    "MPI_LOCAL"};
constexpr std::array<std::string_view, 8> kOthers = {
    "PMIX_NAMESPACE",   "PROCESS_ID",          "NUM_PROCESSES", "COORDINATOR_ADDRESS",
    "COORDINATOR_PORT", "MV2_COMM_WORLD_SIZE", "HOROVOD_SIZE",  "JSM_NAMESPACE_SIZE"};

Environment read_environment() {
  const auto named = [](std::string_view name, const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  Environment environment = whole_environment();
  std::erase_if(environment, [&](const auto& variable) {
    const std::string_view name = variable.first;
    return !named(name, kTaskVariables) && !named(name, kOthers) &&
           std::none_of(kPrefixes.begin(), kPrefixes.end(),
                        [&](auto prefix) { return name.starts_with(prefix); });
  });
  return environment;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    return "localhost";
  const std::string_view text = name.data();
  return std::string(text.substr(0, text.find('.')));
}

} // namespace dist_train
