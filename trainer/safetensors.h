// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes safetensors files, whole directories with an index included. Files are mapped,
// so that a rank touches only the bytes of its own shard. No torch: raw bytes and element types.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist_train {

enum class DType { f32, bf16, f16 };
size_t size_of(DType);

struct TensorView {
  DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; // row-major; lives as long as the TensorFile
};

// All tensors of a model directory (model.safetensors, or the files model.safetensors.index.json
// names). Every offset is checked against the file's size and the tensor's shape on opening.
class TensorFiles {
public:
  static Result<TensorFiles> open(const std::string& directory);
  // Error names the tensor, the directory and near names.
  Result<TensorView> find(const std::string& name) const;
  std::vector<std::string> names() const;

private:
  struct Mapping;
  std::vector<std::shared_ptr<const Mapping>> mappings_;
  std::map<std::string, TensorView> tensors_;
};

struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

// Writes one safetensors file piece by piece in the order of specs: create, append each tensor's
// bytes (any number of calls), finish. The file appears under its name only on finish (temporary
// name, fsync, rename).
class TensorWriter {
public:
  static Result<TensorWriter> create(const std::string& path, const std::vector<TensorSpec>& specs);
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> finish();
  TensorWriter(TensorWriter&&) noexcept;
  ~TensorWriter(); // unfinished: removes the temporary file

private:
  struct State;
  explicit TensorWriter(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

} // namespace dist_train
