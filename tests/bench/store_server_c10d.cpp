// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's c10d TCPStore alone, with its default (libuv) server.
// usage: bench_store_server_c10d CLIENTS; prints its port, ends with its standard input.
#include "tests/bench/await_end.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdio>
#include <cstdlib>

#include <sys/resource.h>

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  const auto clients = std::strtoul(argv[1], nullptr, 10);
  const rlimit limit{clients + 100, clients + 100};
  setrlimit(RLIMIT_NOFILE, &limit);
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  options.useLibUV = true;
  c10d::TCPStore store("127.0.0.1", options);
  std::printf("%u\n", static_cast<unsigned>(store.getPort()));
  std::fflush(stdout);

  await_end_of_input();
  return 0;
}
