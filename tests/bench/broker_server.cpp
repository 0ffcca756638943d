// SPDX-License-Identifier: BSD-3-Clause
// srun's broker alone, with srun's usual limit of 1,024 open files.
// usage: bench_broker_server; prints its port and token, ends with its standard input.
#include "spank/broker.h"
#include "tests/bench/await_end.h"

#include <cstdio>

#include <sys/resource.h>

using namespace dist_train;

int main() {
  const rlimit limit{1024, 1024};
  setrlimit(RLIMIT_NOFILE, &limit);
  auto broker = Broker::open(std::nullopt);
  if (auto started = broker ? (*broker)->start(Options{}) : Result<void>(broker.error());
      !started) {
    std::fprintf(stderr, "bench_broker_server: %s\n", started.error().message.c_str());
    return 1;
  }
  std::printf("%u %s\n", (*broker)->port(), token_text((*broker)->token()).c_str());
  std::fflush(stdout);
  await_end_of_input();
  return 0;
}
