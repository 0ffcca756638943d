// SPDX-License-Identifier: BSD-3-Clause
// dist-train topo: which GPU is near which CPUs and NICs.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// Prints to standard output, errors to standard error; the exit code (2: wrong arguments, 1: the
// machine cannot be read or a file not written).
int run_topo(const std::vector<std::string>& words);

} // namespace dist_train
