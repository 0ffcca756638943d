// SPDX-License-Identifier: BSD-3-Clause
// One line of a JSONL file of texts. Pure.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace dist_train {

// What is wrong with a line; offset is the byte it was noticed at.
struct LineFault {
  size_t offset;
  std::string what;
};

// The member "text" of a line that is one JSON object; other members are passed over. A line of
// white space only has an empty text.
std::variant<std::string, LineFault> text_of_line(std::string_view line);

} // namespace dist_train
