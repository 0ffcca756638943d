// SPDX-License-Identifier: BSD-3-Clause
// JSON text to values, with our errors in place of nlohmann's exceptions. Slow to compile: include
// it in .cpp files only.
#pragma once

#include "libstep/core/result.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dist_train {

// Parses one whole text, as json or, where the order of members matters, ordered_json. Error:
// "FILE:LINE:COLUMN: not JSON: ..." with an excerpt and the hint; also for values nested deeper
// than 100 levels, so that code that walks over the result may recurse.
template <typename Json = nlohmann::json>
Result<Json> parse_json(const std::string& file, std::string_view text, const std::string& hint);

// The human part of a message of nlohmann's parser.
std::string json_complaint(const std::string& what);

// What a value is, for messages: "a string", "a number", "an object" ...
std::string json_kind(const nlohmann::json& value);

// A value for messages: the value itself (strings quoted and cut), or its kind if it has members.
std::string json_seen(const nlohmann::json& value);

} // namespace dist_train
