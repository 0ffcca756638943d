// SPDX-License-Identifier: BSD-3-Clause
// Members of a JSON object with their type checked. .cpp files only.
#pragma once

#include "trainer/json_text.h"
#include "trainer/text_place.h"

#include <limits>

namespace dist_train {

// A JSON object and how a person would find it: "tokenizer.json: pre_tokenizer".
struct JsonPlace {
  const nlohmann::json& value;
  std::string path;

  Error error(const std::string& what) const {
    return {path + " " + what, "the file is damaged or of a kind not supported"};
  }
  // The member, or nullptr when it is absent or null.
  const nlohmann::json* find(const char* name) const {
    if (!value.is_object()) {
      return nullptr;
    }
    const auto found = value.find(name);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }
  JsonPlace at(const char* name) const { return {value.at(name), path + "." + name}; }
  JsonPlace at(size_t i) const { return {value.at(i), path + "[" + std::to_string(i) + "]"}; }

  Result<bool> flag(const char* name, bool otherwise) const {
    const auto* member = find(name);
    if (!member) {
      return otherwise;
    }
    if (!member->is_boolean()) {
      return error(std::string("has a ") + name + " that is " + json_kind(*member) +
                   ", not true or false");
    }
    return member->get<bool>();
  }
  // The text of a member; empty when absent.
  Result<std::string> text(const char* name) const {
    const auto* member = find(name);
    if (!member) {
      return std::string();
    }
    if (!member->is_string()) {
      return error(std::string("has a ") + name + " that is " + json_kind(*member) +
                   ", not a string");
    }
    return member->get<std::string>();
  }
};

// A token id: an integer in 0 .. 2^31-2, or nothing.
inline std::optional<int32_t> token_id(const nlohmann::json& value) {
  constexpr auto kLargest = uint64_t(std::numeric_limits<int32_t>::max()) - 1;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    return {};
  }
  return value.get<int32_t>();
}

} // namespace dist_train
