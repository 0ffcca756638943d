// SPDX-License-Identifier: BSD-3-Clause
#include "spank/srun_ports.h"

#include "libstep/core/text.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <strings.h>

namespace dist_train {

std::optional<PortRange> srun_port_range(std::string_view conf) {
  constexpr std::string_view kKey = "SrunPortRange";
  for (auto line : split(conf, '\n')) {
    line = line.substr(0, line.find('#'));
    auto begin = line.find_first_not_of(" \t");
    if (begin == line.npos || line.size() - begin < kKey.size() ||
        strncasecmp(line.data() + begin, kKey.data(), kKey.size()) != 0)
      continue;
    line.remove_prefix(begin + kKey.size());
    auto value = line.find_first_not_of(" \t=");
    if (value == line.npos)
      continue;
    line.remove_prefix(value);
    line = line.substr(0, line.find_first_of(" \t\r"));
    auto dash = line.find('-');
    auto low = parse_number(line.substr(0, dash), 65535);
    auto high = dash == line.npos ? low : parse_number(line.substr(dash + 1), 65535);
    if (low && high && *low > 0 && *low <= *high)
      return PortRange{static_cast<std::uint16_t>(*low), static_cast<std::uint16_t>(*high)};
  }
  return std::nullopt;
}

std::optional<PortRange> site_srun_port_range() {
  const char* named = std::getenv("SLURM_CONF");
  for (const char* path : {named, "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    FILE* file = path ? std::fopen(path, "re") : nullptr;
    if (!file)
      continue;
    std::string conf;
    std::array<char, 16384> block;
    while (auto got = std::fread(block.data(), 1, block.size(), file))
      conf.append(block.data(), got);
    std::fclose(file);
    return srun_port_range(conf);
  }
  return std::nullopt;
}

} // namespace dist_train
