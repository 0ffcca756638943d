// SPDX-License-Identifier: BSD-3-Clause
// Who runs where, by what all ranks say of themselves: where no launcher tells it, or where it is
// to be seen whether it told the truth.
#pragma once

#include <variant>

#include "libstep/core/rank_map.h"
#include "libstep/session.h"

namespace dist_train {

// A collective of all ranks, over the session's store. The error is of ranks that all came, but
// whose words do not fit together, such as hosts of one name; the refusal of ranks that did not
// come within the seconds.
std::variant<Result<RankMap>, Refusal> introduce_ranks(Session& session, double seconds);

} // namespace dist_train
