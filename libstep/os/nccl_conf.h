// SPDX-License-Identifier: BSD-3-Clause
// The files that NCCL reads beside its environment.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace dist_train {

// Names of the variables that NAME=VALUE lines of such a file set; '#' starts a comment line.
std::set<std::string> nccl_conf_names(std::string_view text);

// Those of /etc/nccl.conf and of the user's ~/.nccl.conf. As the user, whose folder may be hidden
// from root. Only regular files, and of them the first 64 KiB.
std::set<std::string> read_nccl_conf(const std::string& home);

} // namespace dist_train
