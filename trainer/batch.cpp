// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/batch.h"

namespace dist_train {

Batch make_batch(const PackedRows& rows, const std::vector<int64_t>& numbers, at::Device device) {
  const int64_t width = rows.block_size;
  const int64_t total = width * int64_t(numbers.size());
  Batch batch;
  auto tokens = at::zeros({total}, at::kLong);
  auto labels = at::full({total}, -1, at::kLong);
  auto* token = tokens.mutable_data_ptr<int64_t>();
  auto* label = labels.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t start = int64_t(i) * width;
    if (numbers[i] < 0) {
      batch.segments.push_back({start, width});
      continue;
    }
    const auto row = rows.row(numbers[i]);
    const auto documents = rows.documents_of(numbers[i]);
    for (int64_t t = 0; t < width; ++t) {
      const int32_t document = documents[size_t(t)];
      token[start + t] = row[size_t(t)];
      if (t == 0 || document != documents[size_t(t - 1)])
        batch.segments.push_back({start + t, 0});
      ++batch.segments.back().length;
      if (document >= 0 && t + 1 < width && documents[size_t(t + 1)] == document) {
        label[start + t] = row[size_t(t + 1)];
        ++batch.label_count;
      }
    }
  }
  batch.tokens = tokens.to(device);
  batch.labels = labels.to(device);
  return batch;
}

} // namespace dist_train
