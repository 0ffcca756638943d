// SPDX-License-Identifier: BSD-3-Clause
// Computes logits, loss and gradients of one batch with the trainer's own code and writes them as
// safetensors, for comparison with transformers.
//
//   trainer_probe MODEL_DIRECTORY ROWS_FILE OUTPUT_FILE fp32|bf16
//
// ROWS_FILE holds one row of the batch a line: "token:document token:document ...".
#include "trainer/batch.h"
#include "trainer/engine.h"
#include "trainer/weights.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace dist_train {
namespace {

PackedRows read_rows(const std::string& file) {
  PackedRows rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    int64_t width = 0;
    int32_t token = 0, document = 0;
    for (char colon = 0; words >> token >> colon >> document; ++width) {
      rows.tokens.push_back(token);
      rows.documents.push_back(document);
    }
    rows.block_size = width;
  }
  return rows;
}

struct Named {
  std::string name;
  at::Tensor tensor; // fp32, contiguous
};

Result<void> write(const std::string& file, const std::vector<Named>& all) {
  std::vector<TensorSpec> specs;
  for (const Named& named : all)
    specs.push_back({named.name, DType::f32, named.tensor.sizes().vec()});
  auto writer = TensorWriter::create(file, specs);
  if (!writer)
    return writer.error();
  for (const Named& named : all)
    if (auto written = writer->append(
            {static_cast<const std::byte*>(named.tensor.const_data_ptr()), named.tensor.nbytes()});
        !written)
      return written;
  return writer->finish();
}

Result<void> probe(const std::string& directory, const std::string& rows_file,
                   const std::string& output, at::ScalarType type) {
  const at::NoGradGuard no_gradients;
  const auto model = read_model_config(directory);
  if (!model)
    return model.error();
  const auto files = TensorFiles::open(directory);
  if (!files)
    return files.error();
  Links links{make_alone(at::kCPU), make_alone(at::kCPU)};
  Sharding sharding(model_units(*model, 1), links, Strategy::fsdp, type, 1);
  if (auto loaded = load_weights(*files, sharding); !loaded)
    return loaded;
  const auto rows = read_rows(rows_file);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < rows.rows(); ++i)
    numbers.push_back(i);
  const Batch batch = make_batch(rows, numbers, at::kCPU);
  Engine engine(*model, sharding, Checkpointing::none);
  auto loss = at::zeros({1}, at::kDouble);
  std::vector<Named> all{{"logits", engine.logits(batch).to(at::kFloat).contiguous()}};
  auto evaluated = at::zeros({1}, at::kDouble);
  engine.evaluate(batch, evaluated);
  engine.train(batch, loss);
  sharding.finish_reductions();
  const double count = double(batch.label_count);
  all.push_back({"loss", loss.div(count).to(at::kFloat)});
  all.push_back({"eval_loss", evaluated.div(count).to(at::kFloat)});
  for (size_t unit = 0; unit < sharding.units().size(); ++unit)
    for (const Slot& slot : sharding.units()[unit].slots)
      all.push_back({slot.name, slot_tensor(slot, sharding.shard(unit).gradient).div(count)});
  return write(output, all);
}

} // namespace
} // namespace dist_train

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s MODEL_DIRECTORY ROWS_FILE OUTPUT_FILE fp32|bf16\n", argv[0]);
    return 2;
  }
  const auto type = std::string(argv[4]) == "bf16" ? at::kBFloat16 : at::kFloat;
  const auto result = dist_train::probe(argv[1], argv[2], argv[3], type);
  if (!result)
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result ? 0 : 1;
}
