// SPDX-License-Identifier: BSD-3-Clause
// srun's memory of a step, told anything in any order by those who know the token.
#include "spank/roll_call.h"
#include "libstep/core/host_list.h"
#include "libstep/core/task_counts.h"
#include "tests/fuzz/check.h"

#include <fuzzer/FuzzedDataProvider.h>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

Report next_report(FuzzedDataProvider& input) {
  Report report;
  auto bits = input.ConsumeIntegral<std::uint8_t>();
  report.want = static_cast<Want>(bits % 3);
  report.has_row = bits & 4;
  if ((bits & 0xf8) == 8)
    report.failure = Error{input.ConsumeRandomLengthString(20)};
  report.world_size = input.ConsumeBool() ? input.ConsumeIntegral<std::uint32_t>()
                                          : input.ConsumeIntegralInRange<std::uint32_t>(0, 6);
  report.row.rank = input.ConsumeIntegralInRange<std::uint32_t>(0, 7);
  report.row.node = input.ConsumeBool() ? std::string("node0") + static_cast<char>('0' + bits % 8)
                                        : input.ConsumeRandomLengthString(20);
  report.node_ranks = input.ConsumeRandomLengthString(40);
  if (bits & 64)
    report.node_list = input.ConsumeRandomLengthString(40);
  if (bits & 128)
    report.master = Master{report.row.node, "10.0.0.1", "", {1, 2, 3}};
  return report;
}

void check(const Answer& answer, const Report& report, const RollCall& roll) {
  require(answer.note.size() <= 4096, "a note is short");
  require(answer.status == Status::kReady || answer.status == Status::kPending ||
              answer.status == Status::kFailed,
          "an answer has a status");
  if (answer.status == Status::kReady && report.want != Want::kNothing)
    require(answer.master.ports.master != 0, "who wants the master gets it");
  if (answer.status == Status::kReady && report.want == Want::kLayout) {
    require(answer.node_rank < answer.node_count, "a node's rank is one of the nodes'");
    if (!answer.layout.empty()) {
      auto map = parse_layout(answer.layout);
      require(map && world_size(*map) == report.world_size, "a layout is of the whole world");
      require(map->nodes.size() == answer.node_count, "a layout has the nodes it says");
    }
  }
  require(roll.world_size() <= kMaxTasks, "a world has at most kMaxTasks ranks");
  require(roll.failures().size() <= 9, "what a person reads is short");
  require(answer.status != Status::kFailed || !roll.failures().empty(), "a failure has a reason");
  require(roll.rows().size() <= roll.world_size(), "a row a rank");
  require(roll.node_count() <= std::max<std::size_t>(kMaxHosts, roll.world_size()),
          "nodes are bounded");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  RollCall roll;
  for (int i = 0; i < 40 && input.remaining_bytes() > 0; ++i) {
    auto report = next_report(input);
    check(roll.take(report), report, roll);
  }
  (void)roll.missing_nodes();
  (void)mapping_table({"1.0", "torch", "world 1", 1, "-", 0}, roll.rows());
  return 0;
}
