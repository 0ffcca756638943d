// SPDX-License-Identifier: BSD-3-Clause
// libstep's store alone, as rank 0 of CLIENTS + 1 ranks would serve it.
// usage: bench_store_server_step CLIENTS TOKEN; prints its port, ends with its standard input.
#include "libstep/os/port.h"
#include "libstep/store/server.h"
#include "tests/bench/await_end.h"

#include <cstdio>
#include <cstdlib>

#include <sys/resource.h>

using namespace dist_train;

int main(int argc, char** argv) {
  if (argc != 3)
    return 2;
  const auto clients = std::strtoul(argv[1], nullptr, 10);
  const rlimit limit{clients + 100, clients + 100};
  setrlimit(RLIMIT_NOFILE, &limit);
  auto listener = listen_on(0, false);
  if (!listener) {
    std::fprintf(stderr, "bench_store_server_step: %s\n", listener.error().message.c_str());
    return 1;
  }
  const auto port = port_of(*listener);
  ServerOptions options;
  options.nodes.assign(clients + 1, "node01"); // as the launcher tells it
  options.token = argv[2];
  options.listener = Socket(*std::move(listener));
  Socket own_end;
  auto server = Server::start(std::move(options), own_end);
  if (!server) {
    std::fprintf(stderr, "bench_store_server_step: %s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("%u\n", port);
  std::fflush(stdout);

  await_end_of_input();
  return 0;
}
