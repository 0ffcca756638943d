// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/pci.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace dist_train {

namespace {

std::optional<std::uint32_t> parse_hex(std::string_view text, std::size_t digits,
                                       std::uint32_t limit) {
  std::uint32_t value = 0;
  const auto* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || text.size() > digits || error != std::errc() || stop != end || value > limit)
    return std::nullopt;
  return value;
}

} // namespace

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  auto dot = text.rfind('.');
  auto colon = text.rfind(':');
  if (dot == text.npos || colon == text.npos || dot < colon)
    return std::nullopt;
  auto before = text.substr(0, colon);
  auto split = before.rfind(':');
  auto domain = split == before.npos ? std::optional<std::uint32_t>(0)
                                     : parse_hex(before.substr(0, split), 8, 0xffffffff);
  auto bus = parse_hex(split == before.npos ? before : before.substr(split + 1), 2, 0xff);
  auto device = parse_hex(text.substr(colon + 1, dot - colon - 1), 2, 0x1f);
  auto function = parse_hex(text.substr(dot + 1), 1, 7);
  if (!domain || !bus || !device || !function)
    return std::nullopt;
  return PciAddress{*domain, static_cast<std::uint8_t>(*bus), static_cast<std::uint8_t>(*device),
                    static_cast<std::uint8_t>(*function)};
}

std::string to_text(const PciAddress& address) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", address.domain, address.bus,
                address.device, address.function);
  return text.data();
}

} // namespace dist_train
