// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/byte_alphabet.h"
#include "trainer/tokenizer/tokenizer_parts.h"

namespace dist_train {
namespace {

// "left right" or ["left", "right"].
std::optional<std::pair<std::string, std::string>> read_pair(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (!merge.is_string()) {
    return {};
  }
  const auto& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    return {};
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<MergeTable> read_merges(const JsonPlace& merges, const Vocabulary& vocabulary) {
  MergeTable table(merges.value.size());
  int32_t rank = 0;
  for (size_t i = 0; i < merges.value.size(); ++i) {
    const JsonPlace merge = merges.at(i);
    if (merge.value.is_string() &&
        merge.value.get_ref<const std::string&>().starts_with("#version")) {
      continue; // the first line of a merges.txt
    }
    const auto pair = read_pair(merge.value);
    if (!pair) {
      return merge.error("is no pair of tokens");
    }
    const auto left = vocabulary.find(pair->first), right = vocabulary.find(pair->second);
    const auto both = vocabulary.find(pair->first + pair->second);
    for (const auto& [found, token] : {std::pair(left, pair->first), std::pair(right, pair->second),
                                       std::pair(both, pair->first + pair->second)}) {
      if (found == vocabulary.end()) {
        return merge.error("needs the token " + quote(token) + ", which is not in the vocabulary");
      }
    }
    table.set(left->second, right->second, {rank++, both->second});
  }
  return table;
}

// Settings of the model that would change ids and are not implemented.
Result<void> check_settings(const JsonPlace& model) {
  const auto unsupported = [&](const std::string& what) {
    return Error{model.path + " has " + what + ", which is not supported",
                 "only byte-level BPE tokenizers can be used"};
  };
  if (const auto* dropout = model.find("dropout")) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      return unsupported("dropout");
    }
  }
  const auto byte_fallback = model.flag("byte_fallback", false);
  if (!byte_fallback || *byte_fallback) {
    return byte_fallback ? unsupported("byte_fallback") : byte_fallback.error();
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto affix = model.text(name);
    if (!affix || !affix->empty()) {
      return affix ? unsupported(name) : affix.error();
    }
  }
  return {};
}

} // namespace

Result<Vocabulary> read_vocabulary(const JsonPlace& model) {
  const auto* vocab = model.find("vocab");
  if (!vocab || !vocab->is_object() || vocab->empty()) {
    return model.error("has no vocab of tokens and ids");
  }
  Vocabulary result;
  result.reserve(vocab->size());
  for (const auto& [token, value] : vocab->items()) {
    const auto id = token_id(value);
    if (!id) {
      return model.error("has the token " + quote(token) + " with id " + json_seen(value) +
                         ", which is no integer from 0 to 2147483646");
    }
    result.emplace(token, *id);
  }
  return result;
}

Result<BpeModel> read_bpe_model(const JsonPlace& model, const Vocabulary& vocabulary) {
  if (const auto settings = check_settings(model); !settings) {
    return settings.error();
  }
  const auto* merges = model.find("merges");
  if (!merges || !merges->is_array()) {
    return model.error("has no list of merges");
  }
  auto table = read_merges(model.at("merges"), vocabulary);
  const auto ignore_merges = model.flag("ignore_merges", false);
  const auto fuse_unknown = model.flag("fuse_unk", false);
  const auto unknown = model.text("unk_token");
  if (!table || !ignore_merges || !fuse_unknown || !unknown) {
    return !table           ? table.error()
           : !ignore_merges ? ignore_merges.error()
           : !fuse_unknown  ? fuse_unknown.error()
                            : unknown.error();
  }
  BpeModel result;
  result.merges = *std::move(table);
  result.ignore_merges = *ignore_merges;
  result.fuse_unknown = *fuse_unknown;
  if (!unknown->empty()) {
    const auto found = vocabulary.find(*unknown);
    if (found == vocabulary.end()) {
      return model.error("has the unk_token " + quote(*unknown) +
                         ", which is not in the vocabulary");
    }
    result.unknown_id = found->second;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(std::string(byte_character(uint8_t(byte))));
    result.byte_ids[byte] = found == vocabulary.end() ? -1 : found->second;
  }
  if (result.ignore_merges) {
    for (const auto& [token, id] : vocabulary) {
      if (const auto bytes = bytes_of_token(token)) {
        result.words.emplace(*bytes, id);
      }
    }
  }
  return result;
}

} // namespace dist_train
