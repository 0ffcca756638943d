// SPDX-License-Identifier: BSD-3-Clause
// The header of one safetensors file: eight bytes of length, a JSON object, then the tensors' bytes
// without gaps. Parsing trusts nothing: every size is checked against the file. Pure.
#pragma once

#include "trainer/safetensors.h"

#include <cstddef>

namespace dist_train {

// file names the place in errors. The views point into bytes.
Result<std::map<std::string, TensorView>> parse_tensor_file(const std::string& file,
                                                            std::span<const std::byte> bytes);

// Bytes of a tensor; nullopt when a dimension is negative or the product does not fit 63 bits.
std::optional<uint64_t> tensor_bytes(DType, const std::vector<int64_t>& shape);

// The header of the tensors in their order, length word included, padded to 8 bytes.
std::string make_tensor_header(const std::vector<TensorSpec>& specs);

} // namespace dist_train
