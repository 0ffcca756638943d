// SPDX-License-Identifier: BSD-3-Clause
// The readers of the single parts, for tokenizer_json.cpp. .cpp files only.
#pragma once

#include "trainer/tokenizer/json_member.h"
#include "trainer/tokenizer/tokenizer_json.h"

namespace dist_train {

using Vocabulary = std::unordered_map<std::string, int32_t>;

Result<Vocabulary> read_vocabulary(const JsonPlace& model);
Result<BpeModel> read_bpe_model(const JsonPlace& model, const Vocabulary& vocabulary);
Result<Pretokenizer> read_pretokenizer(const JsonPlace& place);

} // namespace dist_train
