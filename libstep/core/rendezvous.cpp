// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/rendezvous.h"

#include "libstep/core/id_set.h"
#include "libstep/core/text.h"

namespace dist_train {

namespace {

// SplitMix64's finisher: spreads neighbouring job and step ids over the whole range.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Aligned to multiples of the block, whatever the range begins with.
std::uint32_t first_block(PortRange range) { return (range.low + kPortBlock - 1u) / kPortBlock; }
std::uint32_t end_block(PortRange range) { return (range.high + 1u) / kPortBlock; }

} // namespace

std::string step_text(const StepId& id) {
  return std::to_string(id.job) + '.' + std::to_string(id.step);
}

Result<std::optional<Ports>> reserved_ports(std::string_view text, Mode mode) {
  auto ids = parse_id_set(text, 65536);
  if (!ids || (!ids->empty() && (ids->front() == 0 || ids->back() > 65535)))
    return Error{"SLURM_STEP_RESV_PORTS=" + quoted(text) + " is not a list of ports",
                 "do not set it yourself; Slurm does"};
  if (ids->size() < (mode == Mode::kJax ? 3 : 2))
    return std::optional<Ports>();
  auto port = [&](std::size_t i) {
    return i < ids->size() ? static_cast<std::uint16_t>((*ids)[i]) : std::uint16_t{0};
  };
  Ports ports{port(0), port(1), port(2), port(3)};
  for (std::size_t i = 3; i < ids->size() && (*ids)[i] == ports.spare + (i - 3); ++i)
    ++ports.spare_count;
  if (mode == Mode::kRay && overlap({ports.master, ports.master}, kRayWorkerPorts))
    return std::optional<Ports>();
  return std::optional<Ports>(ports);
}

std::uint32_t port_candidates(PortRange range) { return end_block(range) - first_block(range); }

Ports port_candidate(const StepId& id, PortRange range, std::uint32_t attempt) {
  std::uint64_t key = mix((std::uint64_t{id.job} << 32) + id.step) + id.restart_count;
  auto block = first_block(range) + (mix(key) + attempt) % port_candidates(range);
  auto port = [&](unsigned i) { return static_cast<std::uint16_t>(block * kPortBlock + i); };
  return {port(0), port(1), port(2), port(3), kPortBlock - 3};
}

bool overlap(PortRange a, PortRange b) { return a.low <= b.high && b.low <= a.high; }

std::string host_port_text(std::string_view address, std::uint16_t port) {
  bool bracket = address.find(':') != address.npos;
  constexpr std::size_t kMost = 300; // a host's name has 255
  auto host = quoted(address, kMost);
  return (bracket ? "[" : "") + host.substr(1, host.size() - 2) + (bracket ? "]:" : ":") +
         std::to_string(port);
}

} // namespace dist_train
