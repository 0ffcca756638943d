// SPDX-License-Identifier: BSD-3-Clause
// own_clients.h with PyTorch's TCPStore.
#include "tests/bench/own_clients.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

using namespace dist_train;

namespace {

class Member {
public:
  explicit Member(c10::intrusive_ptr<c10d::TCPStore> store) : store_(std::move(store)) {}

  std::uint64_t add() { return static_cast<std::uint64_t>(store_->add("count", 1)); }
  void set() { store_->set("go", std::vector<std::uint8_t>{'n', 'o', 'w'}); }
  void wait() { store_->wait({"go"}); }

private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

Member join(const Place& place) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = false;
  options.numWorkers = place.clients + 1; // counts itself in, as init_process_group() has it
  options.useLibUV = true;
  return Member(c10::make_intrusive<c10d::TCPStore>(place.host, options));
}

} // namespace

int main(int argc, char** argv) { return run_own_clients<Member>(argc, argv, join); }
