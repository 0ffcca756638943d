// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/interfaces.h"

#include "libstep/core/text.h"
#include "libstep/os/fd.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace dist_train {

namespace {

// An address as 16 bytes, IPv4 as ::ffff:a.b.c.d.
using Bytes = std::array<std::uint8_t, 16>;

std::optional<Bytes> bytes_of(std::string_view text) {
  std::string copy(text);
  Bytes bytes{};
  if (inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1)
    return bytes;
  bytes[10] = bytes[11] = 0xff;
  if (inet_pton(AF_INET, copy.c_str(), bytes.data() + 12) == 1)
    return bytes;
  return std::nullopt;
}

// Text of an IPv4 or IPv6 address; "" for other families and link-local addresses.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address && address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
  } else if (address && address->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr))
      inet_ntop(AF_INET6, &in->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

// Or the unspecified address, by which the loopback is reached, too.
bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "0.0.0.0" || address == "::";
}

bool in_subnet(std::string_view subnet, const std::string& address) {
  auto slash = subnet.find('/');
  auto net = bytes_of(subnet.substr(0, slash));
  auto host = bytes_of(address);
  bool v4 = subnet.find(':') == subnet.npos;
  auto bits = parse_number(subnet.substr(slash + 1), v4 ? 32 : 128);
  if (!net || !host || !bits)
    return false;
  std::size_t left = *bits + (v4 ? 96 : 0);
  for (std::size_t i = 0; i < net->size() && left > 0; ++i) {
    auto here = std::min<std::size_t>(left, 8);
    auto mask = static_cast<std::uint8_t>(0xff00 >> here);
    if (((*net)[i] ^ (*host)[i]) & mask)
      return false;
    left -= here;
  }
  return true;
}

bool matches(std::string_view item, const InterfaceAddress& entry) {
  if (item.find('/') != item.npos)
    return !entry.loopback && in_subnet(item, entry.address);
  return entry.interface == item || (!entry.loopback && entry.interface.starts_with(item));
}

} // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return found;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    auto address = text_of(entry->ifa_addr);
    constexpr unsigned kUsable = IFF_UP | IFF_RUNNING; // running: there is a carrier
    if (!address.empty() && (entry->ifa_flags & kUsable) == kUsable)
      found.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return found;
}

std::vector<InterfaceAddress> select_interfaces(std::string_view list,
                                                const std::vector<InterfaceAddress>& all) {
  std::vector<std::string_view> wanted, excluded;
  for (auto item : split(list, '+')) {
    if (item.starts_with('^'))
      excluded.push_back(item.substr(1));
    else
      wanted.push_back(item);
  }
  if (wanted.empty())
    wanted.push_back(""); // the prefix of all but loopback
  std::vector<InterfaceAddress> chosen;
  std::vector<bool> taken(all.size(), false);
  for (auto item : wanted) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool out = std::any_of(excluded.begin(), excluded.end(),
                             [&](std::string_view no) { return matches(no, all[i]); });
      if (taken[i] || out || !matches(item, all[i]))
        continue;
      taken[i] = true;
      chosen.push_back(all[i]);
    }
  }
  return chosen;
}

InterfaceAddress source_towards(std::string_view address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* target = nullptr;
  if (getaddrinfo(std::string(address).c_str(), "9", &hints, &target) != 0)
    return {};
  // Connecting a datagram socket sends nothing; it only asks the routing table.
  Fd fd(socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage source{};
  socklen_t length = sizeof source;
  bool routed = fd && connect(fd.get(), target->ai_addr, target->ai_addrlen) == 0 &&
                getsockname(fd.get(), reinterpret_cast<sockaddr*>(&source), &length) == 0;
  freeaddrinfo(target);
  if (!routed)
    return {};
  auto text = text_of(reinterpret_cast<sockaddr*>(&source));
  for (auto& entry : interface_addresses())
    if (entry.address == text)
      return entry;
  return {"", text, is_loopback(text)};
}

std::vector<std::string> resolve(const std::string& host) {
  std::vector<std::string> found;
  for (int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0)
      continue;
    for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
      auto address = text_of(entry->ai_addr);
      if (!address.empty() && !is_loopback(address))
        found.push_back(address);
    }
    freeaddrinfo(list);
    if (!found.empty())
      break;
  }
  return found;
}

std::string nccl_exactly(const std::vector<InterfaceAddress>& interfaces) {
  std::vector<std::string> names;
  for (const auto& entry : interfaces)
    if (std::find(names.begin(), names.end(), entry.interface) == names.end())
      names.push_back(entry.interface);
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "=" : ",") + name;
  return text;
}

std::string nccl_interfaces(const std::vector<InterfaceAddress>& all, const std::string& ours) {
  // Made by containers, virtual machines, tunnels, and BMCs behind USB.
  constexpr std::string_view kNowhere[] = {"br-",  "cali", "cni",  "enx",   "flannel", "tailscale",
                                           "tunl", "usb",  "veth", "vxlan", "wg",      "wl"};
  auto chosen = select_interfaces("ib", all);
  if (chosen.empty())
    chosen = select_interfaces("^docker+^virbr", all);
  auto nowhere = [&](const InterfaceAddress& entry) {
    return entry.address.starts_with("169.254.") ||
           (entry.interface != ours &&
            std::any_of(std::begin(kNowhere), std::end(kNowhere), [&](std::string_view begin) {
              return entry.interface.starts_with(begin);
            }));
  };
  auto is_ours = [&](const InterfaceAddress& entry) { return entry.interface == ours; };
  if (std::none_of(chosen.begin(), chosen.end(), is_ours))
    return ours.empty() ? "" : "=" + ours;
  auto left = std::erase_if(chosen, nowhere);
  return left == 0 ? "" : nccl_exactly(chosen);
}

bool is_literal_address(std::string_view text) {
  return text.size() < INET6_ADDRSTRLEN && bytes_of(text).has_value();
}

} // namespace dist_train
