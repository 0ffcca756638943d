// SPDX-License-Identifier: BSD-3-Clause
// dist-train convert: a Kubeflow manifest as a job script for sbatch.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// The script to standard output, errors to standard error; the exit code: 1 for a file that cannot
// be converted, 2 for wrong arguments.
int run_convert(const std::vector<std::string>& arguments);

} // namespace dist_train
