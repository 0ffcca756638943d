// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/text_line.h"

#include "trainer/json_text.h"
#include "trainer/text_place.h"

#include <optional>

namespace dist_train {
namespace {

// Takes the one member and builds nothing else, so that long lines cost one pass.
class Handler : public nlohmann::json_sax<nlohmann::json> {
public:
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return false; } // not in JSON text
  bool string(string_t& value) override {
    if (depth_ == 0) {
      return other("a string");
    }
    if (depth_ == 1 && at_text_) {
      if (text) {
        return fail("\"text\" is given twice");
      }
      text = std::move(value);
    }
    return true;
  }
  bool start_object(std::size_t) override {
    return (depth_ == 0 || other("an object")) && ++depth_;
  }
  bool start_array(std::size_t) override { return other("a list") && ++depth_; }
  bool end_object() override { return depth_--, true; }
  bool end_array() override { return depth_--, true; }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      at_text_ = name == "text";
      constexpr size_t kMostShown = 100;
      if (names.size() < kMostShown) {
        names += (names.empty() ? "" : ", ") + quote(name);
      }
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    fault = {position == 0 ? 0 : position - 1, "not JSON: " + json_complaint(e.what())};
    return false;
  }

  std::optional<std::string> text;
  std::string names;
  LineFault fault;

private:
  bool fail(std::string what) {
    fault = {0, std::move(what)};
    return false;
  }
  // A value that is no string, which is right anywhere but at the top and for "text".
  bool other(const char* kind) {
    if (depth_ == 0) {
      return fail(std::string("the line is ") + kind + ", not an object");
    }
    return depth_ > 1 || !at_text_ || fail(std::string("\"text\" is ") + kind + ", not a string");
  }

  size_t depth_ = 0;
  bool at_text_ = false;
};

} // namespace

std::variant<std::string, LineFault> text_of_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return std::string();
  }
  Handler handler;
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &handler)) {
    return std::move(handler.fault);
  }
  if (!handler.text) {
    return LineFault{0, "the object has no \"text\"" +
                            (handler.names.empty() ? "" : ", but " + handler.names)};
  }
  return *std::move(handler.text);
}

} // namespace dist_train
