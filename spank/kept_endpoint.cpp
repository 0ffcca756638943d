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

// The user's value, where it stays; "" where ours is set.
std::string_view kept(const char* name, const EnvPlan& changes, const Environment& inherited) {
  auto is_it = [&](const EnvChange& change) { return change.name == name; };
  return std::ranges::any_of(changes.changes, is_it) ? "" : value_of(inherited, name);
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
  std::string host(kept("MASTER_ADDR", changes, inherited));
  std::string port_text(kept("MASTER_PORT", changes, inherited));
  if (plan.local_rank != 0 || (host.empty() && port_text.empty()))
    return warnings;
  std::string kept_text = (host.empty() ? "" : "MASTER_ADDR=" + quoted(host)) +
                          (host.empty() || port_text.empty() ? "" : " ") +
                          (port_text.empty() ? "" : "MASTER_PORT=" + quoted(port_text));
  kept_text = "your " + kept_text + " (env=keep): ";
  auto port = port_text.empty() ? plan.ports.master : parse_number(port_text, 65535).value_or(0);
  if (port == 0)
    return Error{kept_text + "no such port", kHint};
  if (host.empty())
    host = plan.master_address;
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
