// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/json_text.h"

#include "trainer/text_place.h"

namespace dist_train {

Result<nlohmann::json> parse_json(const std::string& file, std::string_view text,
                                  const std::string& hint) {
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    const size_t offset = e.byte == 0 ? 0 : e.byte - 1;
    return Error{place_text(file, text, offset) + ": not JSON: " + json_complaint(e.what()), hint,
                 excerpt(text, offset, 1)};
  } catch (const nlohmann::json::exception& e) { // a number too large for a double
    return Error{file + ": not usable JSON: " + json_complaint(e.what()), hint};
  }
}

std::string json_complaint(const std::string& what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
  // value - unexpected end of input; expected '}'": the place is told by the caller.
  std::string_view rest = what;
  if (const size_t bracket = rest.find("] "); bracket != std::string_view::npos) {
    rest.remove_prefix(bracket + 2);
  }
  if (rest.starts_with("parse error")) {
    if (const size_t colon = rest.find(": "); colon != std::string_view::npos) {
      rest.remove_prefix(colon + 2);
    }
  }
  constexpr size_t kLongest = 200; // the message repeats what was read last, which may be long
  const std::string cut(rest.substr(0, kLongest));
  const size_t good = first_not_utf8(cut).value_or(cut.size());
  return cut.substr(0, good) + (rest.size() > good ? "..." : "");
}

std::string json_kind(const nlohmann::json& value) {
  switch (value.type()) {
  case nlohmann::json::value_t::object:
    return "an object";
  case nlohmann::json::value_t::array:
    return "a list";
  case nlohmann::json::value_t::string:
    return "a string";
  case nlohmann::json::value_t::boolean:
    return "true or false";
  case nlohmann::json::value_t::null:
    return "null";
  default:
    return "a number";
  }
}

} // namespace dist_train
