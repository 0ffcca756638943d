// SPDX-License-Identifier: BSD-3-Clause
// Oniguruma's syntax (Ruby, Unicode) rewritten for PCRE2. Read once from left to right.
#include "trainer/text_place.h"
#include "trainer/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace dist_train {
namespace {

// Unicode's White_Space. PCRE2's own \s has U+180E besides.
constexpr const char* kSpace = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028})"
                               R"(\x{2029}\x{202f}\x{205f}\x{3000})";
// Alphabetic, marks, decimal digits and connectors. The ranges are the symbols that are alphabetic.
constexpr const char* kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9})"
                              R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Rewriter {
public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      bool good = true;
      if (c == '\\') {
        good = escape();
      } else if (in_class_) {
        good = class_character(c);
      } else if (c == '[') {
        begin_class();
      } else if (c == '(') {
        good = group();
      } else if (c == '{') {
        good = interval();
      } else {
        take(1);
      }
      if (!good) {
        return Error{"pattern " + quote(in_) + ": " + quote(refused_) + " at byte " +
                         std::to_string(at_) + " is not supported",
                     "this tokenizer cannot be used"};
      }
    }
    return out_;
  }

private:
  void take(size_t n) {
    out_ += in_.substr(at_, n);
    at_ += n;
  }
  bool replace(size_t n, const std::string& by) {
    out_ += by;
    at_ += n;
    return true;
  }
  bool refuse(size_t n) {
    refused_ = in_.substr(at_, n);
    return false;
  }
  std::string set(const char* members, bool negated) const {
    return std::string(negated ? "[^" : "[") + members + "]";
  }

  void begin_class() {
    in_class_ = true;
    take(in_.substr(at_).starts_with("[^") ? 2 : 1);
    if (in_.substr(at_).starts_with("]")) { // the first one is a character
      take(1);
    }
  }

  bool class_character(char c) {
    if (c == '[' || in_.substr(at_).starts_with("&&")) { // nested sets and intersections
      return refuse(2);
    }
    in_class_ = c != ']';
    take(1);
    return true;
  }

  bool escape() {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    switch (c) {
    case 's':
      return replace(2, in_class_ ? kSpace : set(kSpace, false));
    case 'S':
      return replace(2, in_class_ ? R"(\S\x{180e})" : set(kSpace, true));
    case 'w':
      return replace(2, in_class_ ? kWord : set(kWord, false));
    case 'W':
      return in_class_ ? refuse(2) : replace(2, set(kWord, true));
    case 'v': // Oniguruma: the one character; PCRE2: any vertical space
      return replace(2, R"(\x{b})");
    case 'u': {
      const auto digits = in_.substr(std::min(at_ + 2, in_.size()), 4);
      return digits.size() < 4 ? refuse(2) : replace(6, "\\x{" + std::string(digits) + "}");
    }
    case 'x': // \xHH above 7F would be a byte, not a character
      if (in_.substr(at_ + 2).starts_with("{") || in_.substr(at_ + 2, 1) < "8") {
        take(2);
        return true;
      }
      return refuse(4);
    case 'p':
    case 'P':
      return property();
    case 'd':
    case 'D':
    case 't':
    case 'n':
    case 'r':
    case 'f':
    case 'a':
    case 'e':
      take(2);
      return true;
    case 'A':
    case 'z':
    case 'Z':
      return in_class_ ? refuse(2) : (take(2), true);
    default:
      break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' || letter || is_digit(c)) {
      return refuse(2);
    }
    take(2);
    return true;
  }

  // A general category means the same to both. A script is told apart by PCRE2 since 10.40, which
  // otherwise takes the wider script extensions.
  bool property() {
    const auto rest = in_.substr(at_);
    const size_t close = rest.find('}');
    if (rest.size() < 4 || rest[2] != '{' || close == std::string_view::npos) {
      return refuse(3);
    }
    std::string name(rest.substr(3, close - 3));
    const bool negated = name.starts_with("^");
    name.erase(0, negated ? 1 : 0);
    const bool category = name.size() <= 2;
    constexpr bool kTellsScripts = PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40;
    const std::string prefix = !category && kTellsScripts ? "sc:" : "";
    return replace(close + 1, std::string(rest.substr(0, 2)) + "{" + (negated ? "^" : "") + prefix +
                                  name + "}");
  }

  // Groups, assertions and (?i: mean the same; other options do not.
  bool group() {
    const auto rest = in_.substr(at_);
    for (const char* same : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)", "(?-i:"}) {
      if (rest.starts_with(same)) {
        take(std::string_view(same).size());
        return true;
      }
    }
    if (rest.starts_with("(?") || rest.starts_with("(*")) {
      return refuse(4);
    }
    take(1);
    return true;
  }

  // {,n} is {0,n} to Oniguruma and plain text to PCRE2; {n}+ is possessive to PCRE2 only.
  bool interval() {
    const auto rest = in_.substr(at_);
    const size_t close = rest.find('}');
    const auto body = close == std::string_view::npos ? "" : rest.substr(1, close - 1);
    const bool counts = !body.empty() && body != "," &&
                        body.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!counts) { // a plain brace to both
      return replace(1, "\\{");
    }
    if (rest.substr(close + 1).starts_with("+")) {
      return refuse(close + 2);
    }
    return replace(close + 1, (body.front() == ',' ? "{0" : "{") + std::string(body) + "}");
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  std::string refused_;
};

} // namespace

Result<std::string> pcre2_pattern(std::string_view oniguruma) { return Rewriter(oniguruma).run(); }

} // namespace dist_train
