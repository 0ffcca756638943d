// SPDX-License-Identifier: BSD-3-Clause
// The thread behind clients: it reads for those whose callers do not, and gives signs of life. One
// thread is enough for all clients that a process has of one step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "libstep/store/socket.h"

namespace dist_train {

class Client;

class Reader {
public:
  // world: number of ranks, which sets the pace of signs.
  static Result<std::shared_ptr<Reader>> start(std::uint32_t world);
  ~Reader(); // when all clients are gone

  Result<void> add(Client& client);
  void remove(Client& client); // when it returns, the thread is done with the client
  // Whether the thread looks at the stream of a client that was added. Takes no lock.
  void watch(Client& client, bool on);
  void let_go(Client& client); // of one whose stream has ended; likewise
  void try_again_soon();       // a client could not send what it owes

private:
  explicit Reader(std::uint32_t world) : world_(world) {}
  void run();
  void wake();

  const std::uint32_t world_;
  Socket epoll_;
  Socket wake_;
  std::thread thread_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> owed_{false};
  std::mutex mutex_; // held while the thread works for any of the clients; before theirs
  std::unordered_set<Client*> clients_;
};

} // namespace dist_train
