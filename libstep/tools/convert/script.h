// SPDX-License-Identifier: BSD-3-Clause
// A manifest as a job script for sbatch.
#pragma once

#include "libstep/tools/convert/launch.h"

#include <string>
#include <string_view>

namespace dist_train {

// Text as one word of a POSIX shell, whatever is in it (but NUL): as it is, or in single quotes.
std::string shell_word(std::string_view text);

// The script. `source` is where it comes from, for its first comment; without `container` image
// and mounts are comments, for sites without pyxis.
std::string job_script(const Manifest& manifest, const Launch& launch, const std::string& source,
                       bool container);

} // namespace dist_train
