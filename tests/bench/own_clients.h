// SPDX-License-Identifier: BSD-3-Clause
// Many clients of a store in one process, as the store's own library makes them: a thread for each
// of 8 loopback addresses joins its clients one after the other, each of which adds 1 to one
// counter; the last to add sets a key, and every client waits for it.
// usage: PROGRAM PORT CLIENTS [TOKEN]. Prints one JSON object with the seconds it took, of
// the clock and of CPU; stays connected until its standard input ends.
#pragma once

#include "tests/bench/await_end.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace dist_train {

struct Place {
  std::string host;
  std::uint16_t port;
  std::uint32_t number, clients; // this client, counted from 0, and all
  std::string token;
};

// Member has add() (returns the sum), set() and wait(), which throw on failure.
template <typename Member, typename Join>
int run_own_clients(int argc, char** argv, Join join) {
  constexpr std::uint32_t kAddresses = 8;
  if (argc < 3)
    return 2;
  const auto port = static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10));
  const auto clients = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const std::string token = argc > 3 ? argv[3] : "";
  const rlimit limit{clients + 100, clients + 100};
  setrlimit(RLIMIT_NOFILE, &limit);

  std::vector<std::vector<Member>> members(kAddresses);
  const auto body = [&](std::uint32_t address) {
    try {
      const std::string host = "127.0.0." + std::to_string(address + 1);
      for (std::uint32_t number = address; number < clients; number += kAddresses) {
        members[address].push_back(join(Place{host, port, number, clients, token}));
        if (members[address].back().add() == clients)
          members[address].back().set();
      }
      for (auto& member : members[address])
        member.wait();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "client on 127.0.0.%u: %s\n", address + 1, e.what());
      std::exit(1);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  std::vector<std::thread> threads;
  for (std::uint32_t address = 0; address < kAddresses; ++address)
    threads.emplace_back(body, address);
  for (auto& thread : threads)
    thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("{\"seconds\": %.4f, \"clients_cpu\": %.4f}\n", seconds.count(),
              static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  std::fflush(stdout);
  await_end_of_input();
  std::_Exit(0); // thousands of orderly goodbyes are not what is measured
}

} // namespace dist_train
