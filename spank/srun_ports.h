// SPDX-License-Identifier: BSD-3-Clause
// SrunPortRange of slurm.conf: ports of srun that the site's firewall lets nodes reach.
#pragma once

#include "libstep/core/options.h"

#include <optional>
#include <string_view>

namespace dist_train {

// From the text of a slurm.conf; nothing when it is not set there. Pure.
std::optional<PortRange> srun_port_range(std::string_view conf);

// From this host's slurm.conf ($SLURM_CONF, /etc/slurm, or where slurmd keeps the one it was sent).
std::optional<PortRange> site_srun_port_range();

} // namespace dist_train
