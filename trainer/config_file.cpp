// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/config_file.h"

#include "trainer/json_text.h"
#include "trainer/text_place.h"

#include <algorithm>
#include <limits>

namespace dist_train {
namespace {

// Reads the text and counts what the parser has taken, which is how events get a place.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

private:
  const char* at_;
  size_t* taken_;
};

class Handler : public nlohmann::json_sax<nlohmann::json> {
public:
  Handler(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  bool null() override { return literal(nullptr, 4); }
  bool boolean(bool value) override { return literal(value, value ? 4 : 5); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kLargest = number_unsigned_t(std::numeric_limits<int64_t>::max());
    return value <= kLargest ? number(int64_t(value)) : number(double(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    const size_t begin = opening_quote();
    return add(std::move(value), begin, taken - begin);
  }
  bool binary(binary_t&) override { return false; } // not in JSON text

  bool start_object(std::size_t) override {
    if (!inside_) {
      inside_ = true;
      return true;
    }
    return nested("an object");
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return nested("a list"); }
  bool end_array() override { return true; }

  bool key(string_t& name) override {
    pending_.name = std::move(name);
    pending_.name_offset = opening_quote();
    const auto same = [&](const ConfigEntry& e) { return e.name == pending_.name; };
    const auto first = std::find_if(entries.begin(), entries.end(), same);
    if (first == entries.end()) {
      return true;
    }
    return fail(pending_.name_offset, taken - pending_.name_offset,
                quote(pending_.name) + " is given twice, first at " +
                    place_text(file_, text_, first->name_offset),
                "delete one of the two");
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    const size_t offset = position == 0 ? 0 : position - 1;
    return fail(offset, 1, "not JSON: " + json_complaint(e.what()),
                "the file is one object {\"name\": value, ...}; // comments are allowed");
  }

  size_t taken = 0; // bytes of the text that the parser has read
  std::vector<ConfigEntry> entries;
  Error error;

private:
  bool fail(size_t offset, size_t width, const std::string& what, const std::string& hint) {
    error = {place_text(file_, text_, offset) + ": " + what, hint, excerpt(text_, offset, width)};
    return false;
  }

  bool nested(const std::string& what) {
    const std::string of = inside_ ? "the value of " + quote(pending_.name) : "the whole file";
    return fail(taken - 1, 1, of + " is " + what,
                inside_ ? "it must be one number, string, true or false"
                        : "the file is one object {\"name\": value, ...}");
  }

  // A string ends where the parser stands; its opening quote is the nearest unescaped one before.
  size_t opening_quote() const {
    size_t i = taken - 1;
    while (i > 0) {
      --i;
      if (text_[i] != '"') {
        continue;
      }
      size_t backslashes = 0;
      while (backslashes < i && text_[i - 1 - backslashes] == '\\') {
        ++backslashes;
      }
      if (backslashes % 2 == 0) {
        break;
      }
    }
    return i;
  }

  bool literal(decltype(ConfigEntry::value) value, size_t width) {
    return add(std::move(value), taken - width, width);
  }

  // The parser has read one character past a number, unless the text ended there.
  bool number(decltype(ConfigEntry::value) value) {
    const auto of_number = [](char c) {
      return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    };
    size_t end = std::min(taken, text_.size());
    while (end > 0 && !of_number(text_[end - 1])) {
      --end;
    }
    size_t begin = end;
    while (begin > 0 && of_number(text_[begin - 1])) {
      --begin;
    }
    return add(std::move(value), begin, end - begin);
  }

  bool add(decltype(ConfigEntry::value) value, size_t offset, size_t width) {
    if (!inside_) {
      return fail(offset, width, "the whole file is one value",
                  "the file is one object {\"name\": value, ...}");
    }
    pending_.value = std::move(value);
    pending_.value_offset = offset;
    pending_.value_width = width;
    entries.push_back(std::move(pending_));
    return true;
  }

  const std::string& file_;
  std::string_view text_;
  bool inside_ = false;
  ConfigEntry pending_;
};

} // namespace

Result<std::vector<ConfigEntry>> read_config_entries(const std::string& file,
                                                     std::string_view text) {
  Handler handler(file, text);
  const CountingIterator begin(text.data(), &handler.taken);
  const CountingIterator end(text.data() + text.size(), &handler.taken);
  constexpr bool kStrict = true, kIgnoreComments = true;
  if (!nlohmann::json::sax_parse(begin, end, &handler, nlohmann::json::input_format_t::json,
                                 kStrict, kIgnoreComments)) {
    return handler.error;
  }
  if (const size_t nul = text.find('\0'); nul != text.npos) { // the parser takes it for the end
    return Error{place_text(file, text, nul) + ": not JSON: a NUL byte", "delete what follows",
                 excerpt(text, nul, 1)};
  }
  return std::move(handler.entries);
}

} // namespace dist_train
