// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/tokenizer_json.h"

#include "trainer/tokenizer/tokenizer_parts.h"

#include <algorithm>

namespace dist_train {
namespace {

constexpr const char* kOnlyByteLevel = "only byte-level BPE tokenizers can be used";

struct AddedLists {
  std::vector<AddedToken> raw, normalized;
};

Result<void> read_added_token(const JsonPlace& place, const Vocabulary& vocabulary,
                              AddedLists& lists) {
  const auto content = place.text("content");
  const auto* id_value = place.find("id");
  if (!content) {
    return content.error();
  }
  const auto id = id_value ? token_id(*id_value) : std::nullopt;
  if (content->empty() || !id) {
    return place.error("has no content, or no id from 0 to 2147483646");
  }
  const auto known = vocabulary.find(*content);
  if (known != vocabulary.end() && known->second != *id) {
    return place.error(quote(*content) + " has id " + std::to_string(*id) +
                       ", but the vocabulary says " + std::to_string(known->second));
  }
  const auto special = place.flag("special", false);
  const auto single_word = place.flag("single_word", false);
  const auto left = place.flag("lstrip", false);
  const auto right = place.flag("rstrip", false);
  const auto normalized = place.flag("normalized", special && !*special);
  for (const auto* flag : {&special, &single_word, &left, &right, &normalized}) {
    if (!*flag) {
      return flag->error();
    }
  }
  if (*single_word) {
    return Error{place.path + " " + quote(*content) + " has single_word, which is not supported",
                 kOnlyByteLevel};
  }
  auto& list = *normalized ? lists.normalized : lists.raw;
  const auto same = [&](const AddedToken& other) { return other.content == *content; };
  if (std::any_of(list.begin(), list.end(), same)) {
    return place.error(quote(*content) + " is listed twice");
  }
  list.push_back({*content, *id, *left, *right});
  return {};
}

Result<AddedLists> read_added_tokens(const JsonPlace& root, const Vocabulary& vocabulary) {
  AddedLists lists;
  const auto* list = root.find("added_tokens");
  if (!list) {
    return lists;
  }
  if (!list->is_array()) {
    return root.error("has added_tokens that are no list");
  }
  const JsonPlace tokens = root.at("added_tokens");
  for (size_t i = 0; i < list->size(); ++i) {
    if (auto read = read_added_token(tokens.at(i), vocabulary, lists); !read) {
      return read.error();
    }
  }
  return lists;
}

// A Sequence of nothing, as some files have it.
bool is_empty_sequence(const JsonPlace& place) {
  const auto type = place.text("type");
  const auto* list = place.find("normalizers");
  return type && *type == "Sequence" && list && list->is_array() && list->empty();
}

// Parts that may be there without a say in the ids, and parts that must not be there.
Result<void> check_other_parts(const JsonPlace& root) {
  if (root.find("normalizer") && !is_empty_sequence(root.at("normalizer"))) {
    const auto type = root.at("normalizer").text("type");
    return Error{root.path + ".normalizer is of type " + quote(type ? *type : "") +
                     ", which is not supported",
                 "only tokenizers without normalizer can be used"};
  }
  if (root.find("post_processor")) { // these only add special tokens, which encode() never does
    const auto type = root.at("post_processor").text("type");
    for (const char* known :
         {"ByteLevel", "TemplateProcessing", "Sequence", "BertProcessing", "RobertaProcessing"}) {
      if (type && *type == known) {
        return {};
      }
    }
    return Error{root.path + ".post_processor is of type " + quote(type ? *type : "") +
                     ", which is not supported",
                 kOnlyByteLevel};
  }
  return {};
}

} // namespace

Result<TokenizerParts> read_tokenizer_json(const std::string& file, std::string_view text) {
  const auto json = parse_json(file, text, "tokenizer.json is damaged; copy it again");
  if (!json) {
    return json.error();
  }
  const JsonPlace root{*json, file + ": tokenizer"};
  if (!root.find("model")) {
    return root.error("has no model");
  }
  const JsonPlace model = root.at("model");
  const auto type = model.text("type");
  if (!type) {
    return type.error();
  }
  if (*type != "BPE" && !(type->empty() && model.find("merges"))) { // old files leave it out
    return Error{model.path + " is of type " + quote(*type) + ", which is not supported",
                 kOnlyByteLevel};
  }
  if (auto others = check_other_parts(root); !others) {
    return others.error();
  }
  if (!root.find("pre_tokenizer")) {
    return Error{root.path + " has no pre_tokenizer", kOnlyByteLevel};
  }
  auto pretokenizer = read_pretokenizer(root.at("pre_tokenizer"));
  if (!pretokenizer) {
    return pretokenizer.error();
  }
  const auto vocabulary = read_vocabulary(model);
  if (!vocabulary) {
    return vocabulary.error();
  }
  auto bpe = read_bpe_model(model, *vocabulary);
  if (!bpe) {
    return bpe.error();
  }
  auto added = read_added_tokens(root, *vocabulary);
  if (!added) {
    return added.error();
  }
  TokenizerParts parts;
  for (const auto& [token, id] : *vocabulary) {
    parts.vocabulary_size = std::max(parts.vocabulary_size, int64_t(id) + 1);
  }
  for (const auto* list : {&added->raw, &added->normalized}) {
    for (const auto& token : *list) {
      parts.vocabulary_size = std::max(parts.vocabulary_size, int64_t(token.id) + 1);
    }
  }
  parts.raw = AddedTokens(std::move(added->raw));
  parts.normalized = AddedTokens(std::move(added->normalized));
  parts.pretokenizer = *std::move(pretokenizer);
  parts.model = *std::move(bpe);
  return parts;
}

} // namespace dist_train
