// SPDX-License-Identifier: BSD-3-Clause
// JSON text to values, with our errors in place of nlohmann's exceptions. Slow to compile: include
// it in .cpp files only.
#pragma once

#include "libstep/core/result.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dist_train {

// Parses one whole text. Error: "FILE:LINE:COLUMN: not JSON: ..." with an excerpt and the hint.
Result<nlohmann::json> parse_json(const std::string& file, std::string_view text,
                                  const std::string& hint);

// The human part of a message of nlohmann's parser.
std::string json_complaint(const std::string& what);

// What a value is, for messages: "a string", "a number", "an object" ...
std::string json_kind(const nlohmann::json& value);

} // namespace dist_train
