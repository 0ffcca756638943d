// SPDX-License-Identifier: BSD-3-Clause
// Sets of ranks, CPUs and ports as Slurm writes them.
#include "libstep/core/id_set.h"
#include "libstep/core/rendezvous.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

// Not kMaxIds, for time's sake: the bound is the only difference.
constexpr std::size_t kMost = 3000;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto text = text_of(data, size);
  auto set = parse_id_set(text, kMost);
  if (set) {
    require(set->size() <= kMost, "at most so many members");
    require(std::is_sorted(set->begin(), set->end(), std::less_equal<>()) ||
                std::adjacent_find(set->begin(), set->end(), std::greater_equal<>()) == set->end(),
            "a set is ascending, without duplicates");
    require(set->empty() || set->back() <= kMaxId, "no id above kMaxId");
    auto shortest = id_set_text(*set);
    auto again = parse_id_set(shortest);
    require(again && *again == *set, "a set's text means the same");
  } else {
    require_readable(set.error());
  }
  auto ports = reserved_ports(text);
  if (!ports) {
    require_readable(ports.error());
  } else if (*ports) {
    require((*ports)->master != 0 && (*ports)->store > (*ports)->master,
            "reserved ports are two different ones at least");
  }
  return 0;
}
