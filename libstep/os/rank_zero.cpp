// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/rank_zero.h"

#include "libstep/core/host_list.h"
#include "libstep/os/connect.h"
#include "libstep/os/port.h"

#include <algorithm>

namespace dist_train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kAttempts = 64;
constexpr std::size_t kPeersAsked = 3;
constexpr std::chrono::milliseconds kPeerTime{300};

std::string names_of(const std::vector<InterfaceAddress>& all) {
  std::string text;
  for (const auto& entry : all)
    text += (text.empty() ? "" : ", ") + entry.interface + " " + entry.address;
  return text;
}

// On reserved ports connections of an earlier step may linger; Slurm says they are ours now.
Result<Place> bind_ports(const Ports& ports, bool reserved) {
  Place place;
  place.master.ports = ports;
  // libstep's port first: listening, it belongs to one step alone, and the block with it.
  auto store = listen_on(ports.store, reserved);
  if (!store)
    return store.error();
  auto held = hold_port(ports.master, reserved);
  if (!held)
    return held.error();
  place.store = *std::move(store);
  place.held = *std::move(held);
  if (ports.jax != 0) {
    auto jax = hold_port(ports.jax, reserved);
    if (!jax)
      return jax.error();
    place.jax = *std::move(jax);
  }
  // Spares are free when the step begins, no more: a descriptor for each would burden every child
  // of the program.
  for (unsigned i = 0; i < ports.spare_count; ++i)
    if (auto free = hold_port(static_cast<std::uint16_t>(ports.spare + i), reserved); !free)
      return free.error();
  return place;
}

Result<Place> bind_any_candidate(const StepId& id, PortRange range) {
  auto attempts = std::min(kAttempts, port_candidates(range));
  Error last{"", ""};
  for (std::uint32_t attempt = 0; attempt < attempts; ++attempt) {
    auto place = bind_ports(port_candidate(id, range, attempt), false);
    if (place) {
      place->first_candidate = attempt == 0;
      return place;
    }
    last = place.error();
  }
  return Error{"no free ports for rank 0 in " + std::to_string(range.low) + "-" +
                   std::to_string(range.high) + " after " + std::to_string(attempts) +
                   " attempts; the last: " + last.message,
               "another range: --dist-train=port=LO-HI"};
}

// Whether another node of the step answers over this interface; that nothing listens there is an
// answer too. A few nodes, briefly: they may be down.
bool reaches_peers(const StepNode& node, const Options& options, const std::string& interface) {
  auto hosts = expand_host_list(node.step_nodes);
  std::size_t asked = 0;
  for (const auto& host : hosts ? *hosts : std::vector<std::string>{}) {
    if (host == node.name)
      continue;
    for (const auto& address : resolve(host)) {
      if (source_towards(address).interface != interface)
        continue;
      auto port = options.port.value_or(kDefaultPorts).low;
      if (listens(address, port, Clock::now() + kPeerTime))
        return true;
    }
    if (++asked == kPeersAsked)
      break;
  }
  return false;
}

} // namespace

InterfaceAddress slurm_address(const std::vector<std::string>& srun_hosts) {
  for (const auto& host : srun_hosts)
    if (is_literal_address(host))
      if (auto source = source_towards(host); !source.interface.empty() && !source.loopback)
        return source;
  return {};
}

Result<InterfaceAddress> choose_address(const StepNode& node, const Options& options, bool one_node,
                                        const std::vector<std::string>& srun_hosts) {
  auto all = interface_addresses();
  if (names_interfaces(options)) {
    const auto& list = *options.iface;
    auto chosen = select_interfaces(list, all);
    if (chosen.empty())
      return Error{"no interface of " + node.name + " fits iface=" + list +
                       "; there are: " + names_of(all),
                   "name one of these, or a beginning of its name, or a subnet"};
    return chosen.front();
  }
  auto slurm = slurm_address(srun_hosts);
  std::vector<InterfaceAddress> named;
  for (const auto& address : resolve(node.name))
    for (const auto& entry : all)
      if (entry.address == address && !entry.loopback)
        named.push_back(entry);
  // The name's address on the network that Slurm uses needs no proof.
  for (const auto& entry : named)
    if (one_node || entry.interface == slurm.interface)
      return entry;
  for (const auto& entry : named)
    if (reaches_peers(node, options, entry.interface))
      return entry;
  if (!slurm.address.empty())
    return slurm;
  if (!named.empty())
    return named.front();
  for (const auto& entry : all)
    if (!entry.loopback)
      return entry;
  if (one_node && !all.empty())
    return all.front();
  return Error{node.name + " has no network address that other nodes could reach; there are: " +
                   names_of(all),
               "bring up an interface, or run on one node"};
}

Result<Place> take_place(const StepNode& node, const Options& options,
                         const std::optional<Ports>& reserved, bool one_node,
                         const std::vector<std::string>& srun_hosts) {
  auto address = choose_address(node, options, one_node, srun_hosts);
  if (!address)
    return address.error();
  auto place = reserved ? bind_ports(*reserved, true)
                        : bind_any_candidate(node.id, options.port.value_or(kDefaultPorts));
  if (!place)
    return place.error();
  place->master.node = node.name;
  place->master.address = address->address;
  place->master.interface = address->interface;
  return place;
}

} // namespace dist_train
