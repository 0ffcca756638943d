// SPDX-License-Identifier: BSD-3-Clause
// Where the ranks of a step meet: ports for it, and the texts of addresses.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// What names a run of a step on a cluster; equal on all its nodes.
struct StepId {
  std::uint32_t job = 0; // of the first component in a heterogeneous job
  std::uint32_t step = 0;
  std::uint32_t restart_count = 0;
};

// "4711.0"
std::string step_text(const StepId& id);

// On rank 0's node.
struct Ports {
  std::uint16_t master = 0;      // the framework's
  std::uint16_t store = 0;       // libstep's
  std::uint16_t jax = 0;         // JAX's coordinator; 0: none
  std::uint16_t spare = 0;       // the first of those the program may use as it likes; 0: none
  std::uint16_t spare_count = 0; // they follow each other
  bool operator==(const Ports&) const = default;
};

// Where rank 0 is.
struct Master {
  std::string node;
  std::string address;   // literal
  std::string interface; // of that address; "" if unknown
  Ports ports;
};

// Slurm's reserved ports of the step ("12054-12056,12060"): the first is the framework's, then
// libstep's, then JAX's, and what follows the fourth without a gap is spare. Nothing when they are
// not what the mode needs: two, in mode jax three, in mode ray a head among none of Ray's workers.
Result<std::optional<Ports>> reserved_ports(std::string_view text, Mode mode = Mode::kTorch);

// Where `ray start` lets its workers listen unless it is told otherwise; it refuses a head in there.
inline constexpr PortRange kRayWorkerPorts{10002, 19999};

inline constexpr std::uint16_t kPortBlock = 8; // ports of a candidate: three servers, five spares
inline constexpr std::uint16_t kFewestPorts = 4 * kPortBlock; // of a range: three blocks or more

// The candidate number `attempt` (0, 1, ...) of a step in a range of kFewestPorts or more: a block
// of neighbours from a sequence that every node can compute, and that two steps seldom share. The
// blocks are aligned, so that two of them are equal or disjoint. It repeats after
// port_candidates() attempts.
Ports port_candidate(const StepId& id, PortRange range, std::uint32_t attempt);
std::uint32_t port_candidates(PortRange range);

// Whether the ranges have a port in common.
bool overlap(PortRange a, PortRange b);

// "10.0.0.1:80", "[fe80::1]:80"; of what is no host's name printable text.
std::string host_port_text(std::string_view address, std::uint16_t port);

} // namespace dist_train
