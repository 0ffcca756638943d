// SPDX-License-Identifier: BSD-3-Clause
// How a rank finds rank 0's store and proves that it belongs to the step.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "libstep/include/libstep/step.h"
#include "libstep/store/socket.h"

namespace dist_train {

struct JoinPlan {
  // Where the store may be. One place: the launcher told it, and whoever answers there without
  // knowing the token is an error. Several: tried in turn, again and again, until one knows it.
  std::vector<Endpoint> places;
  std::string store_rank_text; // "rank 0 (node01)", for messages
  std::string token;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t generation = 1;
  double seconds = 300; // in all
};

struct Joined {
  Socket stream;
  Endpoint place;
  std::uint16_t program_port = 0;
};

struct Refusal {
  step_err_t code;
  Error error;
};

std::variant<Joined, Refusal> join_store(const JoinPlan& plan);

} // namespace dist_train
