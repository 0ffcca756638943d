// SPDX-License-Identifier: BSD-3-Clause
// Slurm's compressed host lists.
#include "libstep/core/host_list.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

// Not kMaxHosts: what is learnt from 300 names and from 65,536 is the same, but not the time.
constexpr std::size_t kMost = 300;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto hosts = expand_host_list(text_of(data, size), kMost);
  if (!hosts) {
    require_readable(hosts.error());
    return 0;
  }
  require(hosts->size() <= kMost, "at most so many names");
  require(hosts->empty() == (size == 0), "only the empty text has no names");
  std::string plain;
  for (const auto& name : *hosts) {
    require(!name.empty() && name.size() <= 255, "a name has 1 to 255 characters");
    require(printable(name) && name.find_first_of("[],") == std::string::npos,
            "a name has no character of the list's own");
    if (plain.size() < 4096)
      plain += (plain.empty() ? "" : ",") + name;
  }
  auto again = expand_host_list(plain);
  require(again && again->size() <= hosts->size() &&
              std::equal(again->begin(), again->end(), hosts->begin()),
          "plain names stay as they are");
  return 0;
}
