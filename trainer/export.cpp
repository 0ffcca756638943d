// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model.h"
#include "trainer/weights.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <optional>

namespace dist_train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompanions[] = {"generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "tokenizer.model",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "chat_template.jinja"};

Error cannot_write(const std::string& path, const std::string& reason) {
  return Error{"cannot write " + path + ": " + reason,
               "output_dir must be a writable folder with room for the model"};
}

// The source's config.json with the type of the weights beside it.
Result<void> write_config(const std::string& source, const fs::path& directory, const char* type) {
  std::ifstream in(source + "/config.json");
  auto config = nlohmann::ordered_json::parse(in, nullptr, false);
  if (!config.is_object())
    return Error{source + "/config.json is not a JSON object any more",
                 "was it changed during the run? copy it into the exported folder by hand"};
  config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = type;
  const std::string path = directory / "config.json";
  std::ofstream out(path);
  out << config.dump(2) << '\n';
  out.close();
  if (!out)
    return cannot_write(path, "the disk is full or the folder is not writable");
  return {};
}

Result<void> copy_companions(const std::string& source, const fs::path& directory) {
  for (const char* name : kCompanions) {
    std::error_code error;
    const fs::path from = fs::path(source) / name;
    if (!fs::exists(from, error))
      continue;
    fs::copy_file(from, directory / name, fs::copy_options::overwrite_existing, error);
    if (error)
      return cannot_write(directory / name, error.message());
  }
  return {};
}

Result<TensorWriter> start(const Sharding& sharding, const std::string& source,
                           const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return cannot_write(directory, error.message());
  if (fs::equivalent(source, directory, error))
    return Error{"the export would overwrite the model it came from: " + directory.string(),
                 "choose another output_dir"};
  const bool bf16 = sharding.type() == at::kBFloat16;
  if (auto written = write_config(source, directory, bf16 ? "bfloat16" : "float32"); !written)
    return written.error();
  if (auto copied = copy_companions(source, directory); !copied)
    return copied.error();
  std::vector<TensorSpec> specs;
  for (const Unit& unit : sharding.units())
    for (const Slot& slot : unit.slots)
      specs.push_back({slot.name, bf16 ? DType::bf16 : DType::f32, slot.shape});
  return TensorWriter::create(directory / "model.safetensors", specs);
}

} // namespace

Result<void> export_model(Sharding& sharding, const std::string& source,
                          const std::string& directory) {
  const bool writes = sharding.comm().rank() == 0;
  std::optional<Result<TensorWriter>> writer;
  if (writes)
    writer.emplace(start(sharding, source, directory));
  Result<void> result;
  if (writes && !*writer)
    result = writer->error();
  // The others wait in these gathers, so that they go on even after an error.
  for (size_t unit = 0; unit < sharding.units().size(); ++unit) {
    const auto& flat = sharding.gathered(unit);
    for (const Slot& slot : sharding.units()[unit].slots) {
      if (!writes || !result)
        continue;
      const auto tensor = slot_tensor(slot, flat).to(at::kCPU).contiguous();
      result = (*writer)->append(
          {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    }
  }
  if (writes && result)
    result = (*writer)->finish();
  return result;
}

} // namespace dist_train
