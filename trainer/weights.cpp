// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/weights.h"

#include <algorithm>

namespace dist_train {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

at::ScalarType scalar_type(DType type) {
  switch (type) {
  case DType::f32:
    return at::kFloat;
  case DType::bf16:
    return at::kBFloat16;
  case DType::f16:
    return at::kHalf;
  }
  return at::kFloat;
}

// Elements [from, to) of a file's tensor; copied first, as its bytes may lie at any address.
at::Tensor elements(const TensorView& view, int64_t from, int64_t to) {
  auto part = at::empty({to - from}, scalar_type(view.dtype));
  const size_t width = size_of(view.dtype);
  std::copy_n(view.bytes.begin() + from * int64_t(width), size_t(to - from) * width,
              static_cast<std::byte*>(part.data_ptr()));
  return part;
}

} // namespace

Result<void> load_weights(const TensorFiles& files, Sharding& sharding) {
  for (size_t unit = 0; unit < sharding.units().size(); ++unit) {
    Shard& shard = sharding.shard(unit);
    const int64_t size = sharding.shard_size(unit);
    const int64_t begin = size * sharding.comm().rank();
    for (const Slot& slot : sharding.units()[unit].slots) {
      const auto view = files.find(slot.name);
      if (!view)
        return view.error();
      if (view->shape != slot.shape)
        return Error{"tensor " + slot.name + " has shape " + shape_text(view->shape) +
                         "; config.json makes it " + shape_text(slot.shape),
                     "take config.json and weights of the same model"};
      const int64_t from = std::clamp(begin - slot.offset, int64_t(0), slot.size);
      const int64_t to = std::clamp(begin + size - slot.offset, int64_t(0), slot.size);
      if (from < to)
        shard.master.narrow(0, slot.offset + from - begin, to - from)
            .copy_(elements(*view, from, to));
    }
    if (sharding.type() != at::kFloat)
      shard.parameters.copy_(shard.master);
  }
  sharding.parameters_changed();
  return {};
}

} // namespace dist_train
