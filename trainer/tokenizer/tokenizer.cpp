// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer.h"

#include "trainer/mapped_file.h"
#include "trainer/text_place.h"
#include "trainer/tokenizer/tokenizer_json.h"

#include <limits>

namespace dist_train {

struct Tokenizer::Impl {
  AddedTokens raw, normalized;
  Pretokenizer pretokenizer;
  Bpe bpe;
  int64_t vocabulary_size;

  explicit Impl(TokenizerParts parts)
      : raw(std::move(parts.raw)), normalized(std::move(parts.normalized)),
        pretokenizer(std::move(parts.pretokenizer)), bpe(std::move(parts.model)),
        vocabulary_size(parts.vocabulary_size) {}
};

Result<Tokenizer> Tokenizer::open(const std::string& file) {
  const auto content =
      MappedFile::open(file, "model_name_or_path must hold the model's tokenizer.json");
  if (!content) {
    return content.error();
  }
  auto parts = read_tokenizer_json(file, content->text());
  if (!parts) {
    return parts.error();
  }
  Tokenizer result;
  result.impl_ = std::make_shared<const Impl>(*std::move(parts));
  return result;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  constexpr size_t kLongest = std::numeric_limits<int32_t>::max();
  if (text.size() > kLongest) {
    return Error{"a text of " + std::to_string(text.size()) + " bytes is too long to tokenise",
                 "split it into texts of less than 2 GiB"};
  }
  if (const auto bad = first_not_utf8(text)) {
    return Error{"not UTF-8 at byte " + std::to_string(*bad) + " of the text",
                 "convert the text to UTF-8, for example with iconv"};
  }
  std::vector<Segment> segments;
  std::vector<Segment> parts;
  impl_->raw.cut(text, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      parts.push_back(segment);
    } else {
      impl_->normalized.cut(segment.text, parts);
    }
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  for (const Segment& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const auto words = impl_->pretokenizer.run(part.text);
    if (!words) {
      return words.error();
    }
    for (const std::string_view word : words->words) {
      impl_->bpe.encode(word, ids);
    }
  }
  return ids;
}

int64_t Tokenizer::vocabulary_size() const { return impl_->vocabulary_size; }

} // namespace dist_train
