// SPDX-License-Identifier: BSD-3-Clause
// Slurm's compressed host lists: "n[01-03,7],login" names n01 n02 n03 n7 login.
#pragma once

#include "libstep/core/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

inline constexpr std::size_t kMaxHosts = 65536;

// One plain name: 1 to 255 of [A-Za-z0-9._-].
bool is_host_name(std::string_view text);

// The names in the order written, duplicates kept. Several bracket groups in one name multiply
// ("r[1-2]n[1-2]"). Leading zeros set the width. Each is a host name; more than
// `most` names, unbalanced brackets and backward ranges are refused.
Result<std::vector<std::string>> expand_host_list(std::string_view text,
                                                  std::size_t most = kMaxHosts);

} // namespace dist_train
