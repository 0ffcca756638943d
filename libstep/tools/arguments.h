// SPDX-License-Identifier: BSD-3-Clause
// Command-line words of a sub-command: "--name", "--name VALUE" and "--name=VALUE".
#pragma once

#include "libstep/core/machine.h"
#include "libstep/core/result.h"

#include <map>
#include <string>
#include <vector>

namespace dist_train {

// By name without the dashes; flags have the value "". `flags` and `valued` are the names there
// are; an unknown, repeated or incomplete one is refused.
Result<std::map<std::string, std::string>> parse_arguments(const std::vector<std::string>& words,
                                                           const std::vector<std::string>& flags,
                                                           const std::vector<std::string>& valued);

// The error on standard error, after "dist-train COMMAND: "; returns `code`.
int complain(const char* command, const Error& error, int code);

// The machine of --machine FILE, or this one.
Result<Machine> machine_argument(const std::map<std::string, std::string>& arguments);

} // namespace dist_train
