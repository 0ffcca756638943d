// SPDX-License-Identifier: BSD-3-Clause
#include "spank/kept_endpoint.h"

#include "libstep/core/text.h"
#include "libstep/os/connect.h"
#include "libstep/os/interfaces.h"

#include <algorithm>

namespace dist_train {

namespace {

constexpr std::chrono::seconds kLimit{10}; // four attempts of the kernel
constexpr const char* kHint = "correct it or unset it, or leave out env=keep: then it is ours";

struct Names {
  const char *address, *port;
};
constexpr Names kMaster{"MASTER_ADDR", "MASTER_PORT"};
constexpr Names kTorchrun{"PET_MASTER_ADDR", "PET_MASTER_PORT"}; // what torchrun reads

struct Value {
  std::string text;  // that the task has
  bool kept = false; // the user's
};

Value value_after(const char* name, const EnvPlan& changes, const Environment& inherited) {
  Value value{std::string(value_of(inherited, name)), !value_of(inherited, name).empty()};
  for (const auto& change : changes.changes)
    if (change.name == name)
      value = {change.value.value_or(""), false};
  return value;
}

// Loopback addresses are this machine's, too, and resolve() leaves them out.
bool is_this_machine(const std::string& host) {
  auto own = interface_addresses();
  auto addresses = resolve(host);
  return addresses.empty() || std::ranges::any_of(addresses, [&](const std::string& address) {
           return std::ranges::find(own, address, &InterfaceAddress::address) != own.end();
         });
}

} // namespace

Result<std::vector<std::string>> check_kept_endpoint(const TaskPlan& plan, const EnvPlan& changes,
                                                     const Environment& inherited,
                                                     std::chrono::seconds limit) {
  std::vector<std::string> warnings;
  const auto theirs = [&](const Names& names) {
    return std::pair(value_after(names.address, changes, inherited),
                     value_after(names.port, changes, inherited));
  };
  const auto any_kept = [](const auto& pair) { return pair.first.kept || pair.second.kept; };
  const Names& names = any_kept(theirs(kTorchrun)) ? kTorchrun : kMaster;
  const auto [address, port_value] = theirs(names);
  if (plan.local_rank != 0 || !(address.kept || port_value.kept))
    return warnings;
  std::string kept_text = "your ";
  if (address.kept)
    kept_text += names.address + ('=' + quoted(address.text)) + (port_value.kept ? " " : "");
  if (port_value.kept)
    kept_text += names.port + ('=' + quoted(port_value.text));
  kept_text += " (env=keep): ";
  const auto port = port_value.text.empty() ? plan.ports.master
                                            : parse_number(port_value.text, 65535).value_or(0);
  if (port == 0)
    return Error{kept_text + "no such port", kHint};
  const auto& host = address.text.empty() ? plan.master_address : address.text;
  auto listening = listens(host, static_cast<std::uint16_t>(port),
                           std::chrono::steady_clock::now() + std::min(limit, kLimit));
  if (!listening)
    return Error{kept_text + listening.error().message, kHint};
  if (plan.node_rank != 0 && !*listening && resolve(host).empty())
    return Error{kept_text + "that is each node's own loopback: here nobody finds rank 0, on " +
                     plan.master_node + ' ' + plan.master_address,
                 kHint};
  if (plan.rank != 0)
    return warnings;
  if (*listening)
    warnings.push_back(kept_text + "another program listens there already; if it is not one that " +
                       "this step is to use, rank 0's cannot, and the others wait for it");
  else if (!is_this_machine(host))
    warnings.push_back(kept_text + "not of rank 0's node, " + plan.master_node + ' ' +
                       plan.master_address + ", and nothing listens there: ranks wait until " +
                       "something does");
  return warnings;
}

} // namespace dist_train
