// SPDX-License-Identifier: BSD-3-Clause
// own_clients.h with libstep's client, below the C interface, which is one member a process.
#include "libstep/store/client.h"
#include "libstep/store/join.h"
#include "tests/bench/own_clients.h"

#include <memory>
#include <mutex>
#include <stdexcept>

using namespace dist_train;

namespace {

class Member {
public:
  explicit Member(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  std::uint64_t add() {
    const auto sum = decode_number(call(AddKey{"count", 1}));
    return sum ? *sum : throw std::runtime_error("the sum is no number");
  }
  void set() { call(SetKey{"go", "now"}); }
  void wait() { call(WaitKeys{{"go"}, -1}, -1); }

private:
  std::string call(const Request& request, std::int64_t wait_ms = 0) {
    auto reply = client_->call(request, wait_ms);
    return reply.code == STEP_OK ? std::move(reply.body)
                                 : throw std::runtime_error(reply.error.message);
  }
  std::unique_ptr<Client> client_;
};

Member join(const Place& place, const std::shared_ptr<Reader>& reader) {
  JoinPlan plan;
  plan.places = {{place.host, place.port}};
  plan.store_rank_text = "rank 0";
  plan.token = place.token;
  plan.rank = place.number + 1;
  plan.world = place.clients + 1;
  auto outcome = join_store(plan);
  if (auto* refusal = std::get_if<Refusal>(&outcome))
    throw std::runtime_error(refusal->error.message);
  ClientOptions options;
  options.rank = plan.rank;
  options.world = plan.world;
  auto client =
      Client::start(std::move(std::get<Joined>(outcome).stream), std::move(options), reader);
  return client ? Member(*std::move(client)) : throw std::runtime_error(client.error().message);
}

} // namespace

int main(int argc, char** argv) {
  std::shared_ptr<Reader> reader; // one for all, as a process has one
  std::once_flag once;
  return run_own_clients<Member>(argc, argv, [&](const Place& place) {
    std::call_once(once, [&] {
      if (auto started = Reader::start(place.clients + 1))
        reader = *std::move(started);
    });
    return join(place, reader);
  });
}
