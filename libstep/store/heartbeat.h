// SPDX-License-Identifier: BSD-3-Clause
// Signs of life between each rank and the store. The end of a process shows at once, that of a node
// within the half minute of TCP's own timers; a process that is merely stopped shows by silence.
//
// Silence is counted in ticks of one's own, not in time, and no deadline passes while a process
// stands still: where the whole step was suspended (gang scheduling, scontrol suspend, a closed
// lid) both ends go on where they were.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace dist_train {

inline constexpr double kDefaultSilence = 30; // seconds

// Between two signs of life: rank 0 gets some 1,000 a second at most.
inline std::chrono::milliseconds heartbeat_interval(std::uint32_t world) {
  return std::chrono::milliseconds(std::clamp<std::uint32_t>(world, 1000, 10'000));
}

// Ticks without a byte after which the other end counts as lost; 0: never.
inline std::uint32_t silent_ticks(double silence_seconds, std::uint32_t world) {
  if (silence_seconds < 0)
    return 0;
  const double interval = std::chrono::duration<double>(heartbeat_interval(world)).count();
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(silence_seconds / interval), 3.0, 1'000'000.0));
}

// How long this process stood still, when it wakes up at `now` from a wait that should have ended
// at `due`: nothing, where it was only late.
inline std::chrono::steady_clock::duration stood_still(std::chrono::steady_clock::time_point due,
                                                       std::chrono::steady_clock::time_point now) {
  constexpr std::chrono::seconds kLate{3};
  return now > due + kLate ? now - due : std::chrono::steady_clock::duration::zero();
}

} // namespace dist_train
