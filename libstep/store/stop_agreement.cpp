// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/stop_agreement.h"

#include <algorithm>
#include <utility>

namespace dist_train {

bool StopAgreement::begin(std::string reason) {
  if (std::exchange(asked_, true))
    return false;
  reason_ = std::move(reason);
  count_again_ = true;
  return true;
}

void StopAgreement::report(std::uint32_t rank, std::int64_t passed) {
  if (!asked_ || decided_ || reported_[rank]) // a broken member must not move what was agreed
    return;
  reported_[rank] = true;
  furthest_ = std::max(furthest_, passed);
  if (!count_again_)
    --awaited_;
}

std::optional<std::int64_t> StopAgreement::take_decision() {
  if (!asked_ || decided_)
    return std::nullopt;
  if (std::exchange(count_again_, false)) {
    awaited_ = 0;
    for (const auto rank : roster_.all(Presence::kHere))
      awaited_ += !reported_[rank];
  }
  if (awaited_ > 0)
    return std::nullopt;
  // Nobody has passed an iteration yet: all stop at their first.
  decided_ = furthest_ == INT64_MAX ? furthest_ : furthest_ + 1;
  if (furthest_ == kNoIteration)
    decided_ = kNoIteration;
  return decided_;
}

} // namespace dist_train
