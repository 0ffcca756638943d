// SPDX-License-Identifier: BSD-3-Clause
// Network interfaces of this machine and addresses of others. No reverse name look-ups.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

struct InterfaceAddress {
  std::string interface;
  std::string address; // literal; never link-local
  bool loopback = false;
};

// Addresses of all interfaces that are up and have a carrier, in the kernel's order.
std::vector<InterfaceAddress> interface_addresses();

// Those that an iface= list ("ib+10.0.0.0/8+^docker") admits: names, prefixes of names, subnets;
// '^' excludes, and a list of exclusions alone admits all others. Loopback is admitted only by its
// exact name. Order: that of the list, then the kernel's.
std::vector<InterfaceAddress> select_interfaces(std::string_view list,
                                                const std::vector<InterfaceAddress>& all);

// The address from which this machine would reach `address`, with its interface; empty texts if
// there is no route.
InterfaceAddress source_towards(std::string_view address);

// Literal addresses of a host name, IPv4 first, without loopback and link-local ones; empty when
// the name is not known.
std::vector<std::string> resolve(const std::string& host);

// What NCCL_SOCKET_IFNAME should say where NCCL's own choice among `all` would be wrong: it takes
// every interface whose name begins with "ib", else all but those of Docker and libvirt; so also
// virtual ones that lead nowhere, and not always `ours`, which leads to the other nodes. "" where
// that choice is as good.
std::string nccl_interfaces(const std::vector<InterfaceAddress>& all, const std::string& ours);

// NCCL's exact form: "=eth0,eth1". Each name once.
std::string nccl_exactly(const std::vector<InterfaceAddress>& interfaces);

bool is_literal_address(std::string_view text);

} // namespace dist_train
