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

// What can be known of an export before the training it comes after: makes directory/, tries to
// write there, refuses the source itself and a disk with less room than `bytes`, the size of the
// weights. On rank 0 only.
Result<void> prepare_export(const std::string& source, const std::string& directory,
                            uint64_t bytes);

// Writes into directory/, which prepare_export() has made: model.safetensors in the parameters'
// type, then config.json with that type and what the source directory has of tokenizer and
// generation files; one of these that cannot be copied is a warning on stderr. Collective: all
// ranks gather, rank 0 writes; the result of the others is always good.
Result<void> export_model(Sharding& sharding, const std::string& source,
                          const std::string& directory);

} // namespace dist_train
