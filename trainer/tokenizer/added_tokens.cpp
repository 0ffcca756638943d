// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/added_tokens.h"

#include <algorithm>

namespace dist_train {
namespace {

// Bytes of Unicode's white space at the beginning or the end of the text, as UTF-8.
size_t white_space(std::string_view text, bool at_end) {
  static constexpr std::string_view kSpaces[] = {
      " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085", "\u00A0", "\u1680",
      "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
      "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  size_t bytes = 0;
  while (true) {
    const auto rest = at_end ? text.substr(0, text.size() - bytes) : text.substr(bytes);
    const auto found =
        std::find_if(std::begin(kSpaces), std::end(kSpaces), [&](std::string_view space) {
          return at_end ? rest.ends_with(space) : rest.starts_with(space);
        });
    if (found == std::end(kSpaces)) {
      return bytes;
    }
    bytes += found->size();
  }
}

unsigned char byte_at(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

} // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const auto& token : tokens_) {
    first_[byte_at(token.content, 0)] = true;
  }
}

// Narrows the sorted tokens byte by byte to those that agree with the text so far.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t depth = 0; low != high; ++depth) {
    if (low->content.size() == depth) { // the shortest of them comes first
      longest = &*low++;
    }
    if (depth == text.size()) {
      break;
    }
    const unsigned char wanted = byte_at(text, depth);
    low = std::partition_point(
        low, high, [&](const AddedToken& token) { return byte_at(token.content, depth) < wanted; });
    high = std::partition_point(low, high, [&](const AddedToken& token) {
      return byte_at(token.content, depth) == wanted;
    });
  }
  return longest;
}

void AddedTokens::cut(std::string_view text, std::vector<Segment>& segments) const {
  size_t done = 0; // end of the last segment
  size_t at = 0;
  while (at < text.size() && !tokens_.empty()) {
    const AddedToken* token = first_[byte_at(text, at)] ? longest_at(text.substr(at)) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at;
    at += token->content.size();
    size_t end = at;
    if (token->strip_left) { // not the space that an earlier token has taken
      begin = std::max(done, begin - white_space(text.substr(0, begin), true));
    }
    if (token->strip_right) {
      end += white_space(text.substr(end), false);
    }
    if (done < begin) {
      segments.push_back({text.substr(done, begin - done)});
    }
    segments.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) {
    segments.push_back({text.substr(done)});
  }
}

} // namespace dist_train
