// SPDX-License-Identifier: BSD-3-Clause
// The JSON text of a configuration as a list of names and values with their places. Knows JSON, but
// no option. Pure.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dist_train {

struct ConfigEntry {
  std::string name;
  std::variant<std::nullptr_t, bool, int64_t, double, std::string> value;
  size_t name_offset = 0; // bytes into the text, of the opening quote
  size_t value_offset = 0;
  size_t value_width = 0; // bytes
};

// One object of plain members; // and /* */ comments are allowed. Error: not JSON, nested or
// repeated members, with FILE:LINE:COLUMN.
Result<std::vector<ConfigEntry>> read_config_entries(const std::string& file,
                                                     std::string_view text);

} // namespace dist_train
