// SPDX-License-Identifier: BSD-3-Clause
// All tasks of a step at once ask srun's broker where rank 0 is: a thread and a connection each, by
// the plugin's own code.
// usage: bench_broker_tasks PORT TOKEN master|layout TASKS TASKS_PER_NODE
// Prints one JSON object: seconds until the last task had its answer, and the slowest tenth's
// first.
#include "spank/broker_client.h"
#include "tests/bench/await_end.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include <sys/resource.h>

using namespace dist_train;
using Clock = std::chrono::steady_clock;

namespace {

Report report_of(std::uint32_t rank, std::uint32_t world, std::uint32_t per_node, Want want) {
  const std::uint32_t node = rank / per_node;
  const std::uint32_t first = node * per_node;
  Report report;
  report.world_size = world;
  report.want = want;
  report.id = {1, 0};
  report.row.rank = rank;
  report.row.local_rank = rank - first;
  report.row.node = "n" + std::to_string(node);
  report.node_ranks =
      std::to_string(first) + "-" + std::to_string(std::min(first + per_node, world) - 1);
  report.node_list = "n[0-" + std::to_string((world - 1) / per_node) + "]";
  if (rank == 0)
    report.master = Master{report.row.node, "10.0.0.1", "eth0", {23001, 23002, 23003}};
  return report;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 6)
    return 2;
  const auto token = parse_token(argv[2]);
  const std::string word = argv[3];
  const auto want = word == "layout" ? Want::kLayout : Want::kMaster;
  const auto tasks = static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10));
  const auto per_node = static_cast<std::uint32_t>(std::strtoul(argv[5], nullptr, 10));
  const rlimit limit{tasks + 100, tasks + 100};
  if (!token || tasks == 0 || per_node == 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 2;
  const BrokerAddress broker{
      {"127.0.0.1"}, static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)), *token};

  // Nodes start in no order; rank 0 is somewhere among them.
  std::vector<std::uint32_t> order(tasks);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
  std::vector<double> seconds(tasks);
  std::atomic<int> failed = 0;
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (const std::uint32_t rank : order)
    threads.emplace_back([&, rank] {
      const auto found =
          ask(broker, report_of(rank, tasks, per_node, want), std::chrono::seconds(300));
      if (found.reach != Reach::kAnswered || found.answer.status != Status::kReady ||
          found.answer.master.address != "10.0.0.1") {
        if (failed++ == 0)
          std::fprintf(stderr, "rank %u: %s\n", rank, found.error.message.c_str());
      }
      seconds[rank] = std::chrono::duration<double>(Clock::now() - begin).count();
    });
  for (auto& thread : threads)
    thread.join();
  if (failed != 0) {
    std::fprintf(stderr, "bench_broker_tasks: %d of %u tasks failed\n", failed.load(), tasks);
    return 1;
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("{\"seconds\": %.4f, \"most\": %.4f}\n", seconds.back(), seconds[tasks * 9 / 10]);
  std::fflush(stdout);
  await_end_of_input();
  return 0;
}
