// SPDX-License-Identifier: BSD-3-Clause
// From packed rows to what the model sees.
#pragma once

#include "trainer/data.h"
#include "trainer/model.h"

#include <vector>

namespace dist_train {

// The rows with these numbers; a number below zero stands for a row without documents, for a rank
// that has none left while others have.
Batch make_batch(const PackedRows& rows, const std::vector<int64_t>& numbers, at::Device device);

} // namespace dist_train
