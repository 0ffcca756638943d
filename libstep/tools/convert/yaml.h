// SPDX-License-Identifier: BSD-3-Clause
// YAML text as plain values. The one place that knows a YAML library; a build without one has
// yaml_absent.cpp, whose read_yaml() says so.
#pragma once

#include "libstep/core/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// A value and where it stands. Lists and maps have their values in `items`; those of a map have
// the `key` they stand under.
struct YamlNode {
  enum class Kind { kNull, kText, kBool, kNumber, kList, kMap };
  Kind kind = Kind::kNull;
  std::string key = {};
  std::string text = {}; // as written; a kText has no NUL in it
  std::size_t line = 0;  // both from 1
  std::size_t column = 0;
  std::vector<YamlNode> items = {};
};

constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;

// The documents of `text`, empty ones left out; `file` is what errors call it: "FILE:LINE:COLUMN:
// what". Refused are more than kMaxYamlBytes, what is not UTF-8, keys that come twice, tags of
// others, and aliases or nesting beyond any manifest's. Aliases and merge keys (<<) are resolved.
Result<std::vector<YamlNode>> read_yaml(std::string_view text, const std::string& file);

// "FILE:LINE:COLUMN: what".
inline Error yaml_error(const std::string& file, std::size_t line, std::size_t column,
                        const std::string& what, std::string hint = {}) {
  return {file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + what,
          std::move(hint)};
}

} // namespace dist_train
