// SPDX-License-Identifier: BSD-3-Clause
// Sets of small numbers (ranks, CPUs) and their text form "0-3,8".
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// Ascending, without duplicates.
using IdSet = std::vector<std::uint32_t>;

inline constexpr std::size_t kMaxIds = 1u << 20; // members of a set
inline constexpr std::uint32_t kMaxId = 0x7fffffff;

// "0-3,8" in any order and with overlaps; "" is the empty set. Refuses anything else, ranges that
// run backwards, ids above kMaxId and more than `most` (before overlaps are
// taken out).
Result<IdSet> parse_id_set(std::string_view text, std::size_t most = kMaxIds);

// The shortest text with ascending ranges; "" for the empty set. The set must be ascending.
std::string id_set_text(const IdSet& set);

// Members of both; of either. The sets must be ascending.
IdSet intersection(const IdSet& a, const IdSet& b);
IdSet united(const IdSet& a, const IdSet& b);

} // namespace dist_train
