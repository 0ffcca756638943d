// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/regex.h"

#include "trainer/text_place.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace dist_train {
namespace {

std::string pcre2_message(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// What a match needs besides the expression; one per thread and kept.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);

  Scratch() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

size_t next_character(std::string_view text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

} // namespace

struct Regex::Code {
  pcre2_code* code;
  std::string shown;
  explicit Code(pcre2_code* c, std::string_view s) : code(c), shown(s) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Result<Regex> Regex::compile(std::string_view oniguruma) {
  const auto pattern = pcre2_pattern(oniguruma);
  if (!pattern) {
    return pattern.error();
  }
  return compile(*pattern, PCRE2_UCP | PCRE2_MULTILINE, oniguruma);
}

Result<Regex> Regex::literal(std::string_view text) {
  return compile(std::string(text), PCRE2_LITERAL, text);
}

Result<Regex> Regex::compile(const std::string& pattern, unsigned options, std::string_view shown) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | options, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!code) {
    return Error{"pattern " + quote(shown) + ": " + pcre2_message(error) + " near " +
                     quote(std::string_view(pattern).substr(std::min(offset, pattern.size()))),
                 "this tokenizer cannot be used"};
  }
  // Without a machine-code compiler for this processor PCRE2 interprets: slower, the same result.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(std::make_shared<const Code>(code, shown));
}

Result<void> Regex::cut(std::string_view text, std::vector<Piece>& pieces) const {
  if (text.empty()) {
    return {};
  }
  thread_local Scratch scratch;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const size_t* range = pcre2_get_ovector_pointer(scratch.data);
  size_t done = 0;                // end of the last piece
  size_t from = 0;                // where the next search begins
  std::optional<size_t> last_end; // an empty match right after a match does not count
  while (from <= text.size()) {
    const int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                  scratch.data, scratch.context);
    if (found == PCRE2_ERROR_NOMATCH) {
      break;
    }
    if (found < 0) {
      return Error{"pattern " + quote(code_->shown) + " failed on a text of " +
                       std::to_string(text.size()) + " bytes: " + pcre2_message(found),
                   "split or leave out that text"};
    }
    const size_t begin = range[0], end = range[1];
    if (begin == end && last_end == end) {
      from = next_character(text, from);
      continue;
    }
    if (done != begin) {
      pieces.push_back({text.substr(done, begin - done), false});
    }
    pieces.push_back({text.substr(begin, end - begin), true});
    done = from = end;
    last_end = end;
  }
  if (done != text.size()) {
    pieces.push_back({text.substr(done), false});
  }
  return {};
}

} // namespace dist_train
