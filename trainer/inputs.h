// SPDX-License-Identifier: BSD-3-Clause
// Everything a run reads before it trains. No torch.
#pragma once

#include "trainer/config.h"
#include "trainer/data.h"
#include "trainer/model_config.h"
#include "trainer/safetensors.h"

namespace dist_train {

struct Inputs {
  ModelConfig model;
  TensorFiles files;
  PackedRows train;
  PackedRows validation; // no rows without a validation_file
};

// Reads configuration and weights' index of the model, its tokenizer and the text, and checks that
// they fit each other. threads: for tokenising.
Result<Inputs> read_inputs(const Config& config, int threads);

} // namespace dist_train
