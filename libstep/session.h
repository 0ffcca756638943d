// SPDX-License-Identifier: BSD-3-Clause
// One process's membership of a step: its identity, in rank 0 the store's server, and the client.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

#include "libstep/identity.h"
#include "libstep/os/stop_signals.h"
#include "libstep/store/client.h"
#include "libstep/store/heartbeat.h"
#include "libstep/store/join.h"
#include "libstep/store/server.h"

namespace dist_train {

struct Session {
  Identity identity;
  std::string store_address; // "address:port", "" in a world of one
  pid_t process = 0;         // threads and streams do not survive a fork()
  double linger_seconds = 30;
  double silence_seconds = kDefaultSilence;
  double stop_seconds = 0; // see ServerOptions
  Socket held_port;        // rank 0, where nobody else holds the program's port
  std::unique_ptr<Server> server;
  std::unique_ptr<StopSignals> signals; // the client asks it
  std::unique_ptr<Client> client;
  std::atomic<std::uint64_t> collectives{0}; // begun so far
};

// Joins the store of the step, or serves it in rank 0, and fills the rest of the session, of which
// only identity and times are set. The identity's master_port is known after.
std::optional<Refusal> open_session(Session& session, double connect_seconds);

// Says goodbye and, in rank 0, serves until the others have left or the session's linger is over.
void close_session(Session& session);

// The variables of this process, those of them that identities are made of, and the host's name up
// to its first dot. The only place where libstep looks at its environment.
Environment whole_environment();
Environment read_environment();
std::string host_name();

} // namespace dist_train
