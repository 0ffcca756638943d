// SPDX-License-Identifier: BSD-3-Clause
// PCI addresses: the one name of a device that does not depend on who counts or renumbers.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dist_train {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;   // below 32
  std::uint8_t function = 0; // below 8
  auto operator<=>(const PciAddress&) const = default;
};

// "0000:1b:00.0", in any case, with any width of the domain (nvidia-smi writes eight digits), or
// without a domain. Nothing for all else.
std::optional<PciAddress> parse_pci_address(std::string_view text);

// "0000:1b:00.0" as the kernel writes it.
std::string to_text(const PciAddress& address);

} // namespace dist_train
