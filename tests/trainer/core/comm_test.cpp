// SPDX-License-Identifier: BSD-3-Clause
// Collectives over shared memory and over Gloo, with threads as ranks: both keep the same contract.
#include "trainer/comm.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <random>
#include <thread>

#include <sys/resource.h>

namespace dist_train {
namespace {

constexpr int64_t kPart = 2048; // elements of a shard: a page in bf16

using Body = std::function<void(Comm&)>;

void on_ranks(int world, bool shared, double seconds, const Body& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank)
    ranks.emplace_back([&, rank] {
      const at::NoGradGuard no_gradients;
      const Group group{store, rank, world, std::chrono::milliseconds(int64_t(seconds * 1000))};
      const auto comm = shared ? make_shared_memory(group) : make_gloo(group, {"", "127.0.0.1"});
      ASSERT_TRUE(comm);
      body(*comm);
    });
  for (auto& rank : ranks)
    rank.join();
}

// What a rank puts at a place in a round: exact in bf16, and so are sums of a few.
float value_of(int rank, int64_t round, int64_t place) {
  return float((rank + 1) * (1 + (round + place) % 7));
}

at::Tensor values_of(int rank, int64_t round, int64_t first, int64_t size) {
  auto values = at::empty({size});
  for (int64_t i = 0; i < size; ++i)
    values.mutable_data_ptr<float>()[i] = value_of(rank, round, first + i);
  return values;
}

class Transports : public testing::TestWithParam<std::tuple<int, bool, at::ScalarType>> {};

// As training does it: a parameter shard that changes after each all_reduce(), and two gradient
// buffers that take turns while their reductions and the gathers are under way. Ranks dawdle at
// random places, each at its own.
TEST_P(Transports, GatherAndReduceWhileOthersAreElsewhere) {
  const auto [world, shared, type] = GetParam();
  on_ranks(world, shared, 60, [world = world, type = type](Comm& comm) {
    const int me = comm.rank();
    std::minstd_rand random(unsigned(me + 1));
    const auto dawdle = [&] {
      if (random() % 4 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    };
    auto part = comm.buffer(kPart, type);
    auto out = comm.whole(part);
    if (!out.defined())
      out = at::zeros({kPart * world}, type);
    at::Tensor gradients[2], scratch[2], sums[2];
    for (int i = 0; i < 2; ++i) {
      gradients[i] = comm.buffer(kPart * world, type);
      scratch[i] = comm.reduction_scratch(kPart * world, type);
      sums[i] = at::zeros({kPart});
    }
    Pending reductions[2];
    for (int64_t round = 0; round < 30; ++round) {
      part.copy_(values_of(me, round, 0, kPart));
      auto gather = comm.all_gather(out, part);
      for (int i = 0; i < 2; ++i) {
        dawdle();
        reductions[i].wait();
        if (round > 0) {
          const int64_t number = 2 * (round - 1) + i;
          auto expected = at::zeros({kPart});
          for (int rank = 0; rank < world; ++rank)
            expected += values_of(rank, number, me * kPart, kPart);
          EXPECT_TRUE(sums[i].equal(round > 1 ? expected + 1 : expected)) << round;
        }
        sums[i].fill_(1);
        gradients[i].copy_(values_of(me, 2 * round + i, 0, kPart * world));
        reductions[i] = comm.reduce_scatter(gradients[i], scratch[i], sums[i], round > 0);
      }
      dawdle();
      gather.wait();
      for (int rank = 0; rank < world; ++rank)
        EXPECT_TRUE(out.narrow(0, rank * kPart, kPart)
                        .to(at::kFloat)
                        .equal(values_of(rank, round, 0, kPart)))
            << round;
      for (auto& reduction : reductions)
        reduction.wait();
      auto total = at::tensor({double(me), double(round)}, at::kDouble);
      comm.all_reduce(total);
      EXPECT_EQ(total[0].item<double>(), world * (world - 1) / 2);
      EXPECT_EQ(total[1].item<double>(), double(round * world));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Transports,
                         testing::Combine(testing::Values(2, 5), testing::Bool(),
                                          testing::Values(at::kFloat, at::kBFloat16)));

TEST(SharedMemory, WaitsNoLongerThanItMay) {
  on_ranks(2, true, 0.2, [](Comm& comm) {
    if (comm.rank() == 0) {
      EXPECT_THROW(comm.all_reduce(at::zeros({1}, at::kDouble)), std::runtime_error);
    }
  });
}

TEST(SharedMemory, IsNotUsedWhereItCannotBe) {
  rlimit limit{}, small{};
  getrlimit(RLIMIT_FSIZE, &limit);
  small = limit;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Group group{c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::milliseconds(1000)};
  EXPECT_FALSE(make_shared_memory(group));
  setrlimit(RLIMIT_FSIZE, &limit);
}

} // namespace
} // namespace dist_train
