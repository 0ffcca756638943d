// SPDX-License-Identifier: BSD-3-Clause
// Hugging Face directories in and out: each rank reads only the bytes of its own shards, and rank 0
// writes the model unit by unit, so that no process ever holds all of it.
#pragma once

#include "trainer/safetensors.h"
#include "trainer/sharding.h"

#include <string>

namespace dist_train {

// Fills this rank's shards. Every tensor of the model must be there in the right shape; errors
// name the tensor. Further tensors of the files are ignored.
Result<void> load_weights(const TensorFiles& files, Sharding& sharding);

// Writes directory/ (made if missing) with model.safetensors in the parameters' type, config.json
// with that type, and what the source directory has of tokenizer and generation files. Collective:
// all ranks gather, rank 0 writes; the result of the others is always good.
Result<void> export_model(Sharding& sharding, const std::string& source,
                          const std::string& directory);

} // namespace dist_train
