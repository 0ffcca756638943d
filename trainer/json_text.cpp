// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/json_text.h"

#include "trainer/text_place.h"

#include <optional>

namespace dist_train {

namespace {

struct Flaw {
  size_t offset;
  std::string what;
};

// What nlohmann's parser lets pass: a NUL byte, which it takes for the end, and nesting so deep
// that whatever walks over the value later would overflow the stack.
std::optional<Flaw> find_flaw(std::string_view text) {
  constexpr size_t kDeepest = 100;
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') {
      return Flaw{i, "not JSON: a NUL byte"};
    }
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      i += c == '\\';
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) {
        return Flaw{i, "nested deeper than " + std::to_string(kDeepest) + " levels"};
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return {};
}

// "... number overflow parsing '1e999'" has no place: it is where the number stands first.
size_t offset_of_number(std::string_view text, std::string_view what) {
  const size_t begin = what.find('\'') + 1, end = what.rfind('\'');
  const size_t offset = begin < end ? text.find(what.substr(begin, end - begin)) : text.npos;
  return offset == text.npos ? 0 : offset;
}

} // namespace

template <typename Json>
Result<Json> parse_json(const std::string& file, std::string_view text, const std::string& hint) {
  const auto refuse = [&](size_t offset, const std::string& what) {
    return Error{place_text(file, text, offset) + ": " + what, hint, excerpt(text, offset, 1)};
  };
  if (const auto flaw = find_flaw(text)) {
    return refuse(flaw->offset, flaw->what);
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    return refuse(e.byte == 0 ? 0 : e.byte - 1, "not JSON: " + json_complaint(e.what()));
  } catch (const nlohmann::json::exception& e) { // a number too large for a double
    return refuse(offset_of_number(text, e.what()), "not usable JSON: " + json_complaint(e.what()));
  }
}

template Result<nlohmann::json> parse_json(const std::string&, std::string_view,
                                           const std::string&);
template Result<nlohmann::ordered_json> parse_json(const std::string&, std::string_view,
                                                   const std::string&);

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

std::string json_seen(const nlohmann::json& value) {
  if (value.is_string()) {
    return quote(value.get_ref<const std::string&>());
  }
  return value.is_primitive() ? value.dump() : json_kind(value);
}

} // namespace dist_train
