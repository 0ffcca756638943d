// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/inputs.h"

#include <algorithm>

namespace dist_train {
namespace {

Result<PackedRows> read_rows(const Config& config, const std::string& file,
                             const Tokenizer& tokenizer, const ModelConfig& model, int threads) {
  auto rows = read_text_rows(file, tokenizer, model.end_of_text, config.block_size, threads);
  if (!rows)
    return rows;
  if (rows->tokens.empty())
    return Error{file + " has no text", "give JSONL with a \"text\" member in each line"};
  const int32_t largest = *std::max_element(rows->tokens.begin(), rows->tokens.end());
  if (largest >= model.vocab_size)
    return Error{"tokenizer.json gives the id " + std::to_string(largest) +
                     ", but the model's vocab_size is " + std::to_string(model.vocab_size),
                 "take tokenizer and weights of the same model"};
  return rows;
}

} // namespace

Result<Inputs> read_inputs(const Config& config, int threads) {
  const std::string& directory = config.model_name_or_path;
  auto model = read_model_config(directory);
  if (!model)
    return model.error();
  if (config.block_size > model->max_position_embeddings)
    return Error{"block_size " + std::to_string(config.block_size) +
                     " is beyond the model's max_position_embeddings " +
                     std::to_string(model->max_position_embeddings),
                 "choose a block_size up to that"};
  auto files = TensorFiles::open(directory);
  if (!files)
    return files.error();
  const auto tokenizer = Tokenizer::open(directory + "/tokenizer.json");
  if (!tokenizer)
    return tokenizer.error();
  auto train = read_rows(config, config.train_file, *tokenizer, *model, threads);
  if (!train)
    return train.error();
  PackedRows validation;
  if (!config.validation_file.empty()) {
    auto rows = read_rows(config, config.validation_file, *tokenizer, *model, threads);
    if (!rows)
      return rows.error();
    validation = *std::move(rows);
  }
  return Inputs{*std::move(model), *std::move(files), *std::move(train), std::move(validation)};
}

} // namespace dist_train
