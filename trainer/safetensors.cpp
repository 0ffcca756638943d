// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/safetensors.h"

#include "trainer/json_text.h"
#include "trainer/mapped_file.h"
#include "trainer/safetensors_header.h"
#include "trainer/text_place.h"

#include <set>
#include <unistd.h>

namespace dist_train {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// tensor name -> file name, as the index says. File names with a '/' could leave the directory.
Result<std::map<std::string, std::string>> read_weight_map(const std::string& index) {
  constexpr const char* kHint = "the index is damaged; copy it again";
  const auto file = MappedFile::open(index, kHint);
  if (!file) {
    return file.error();
  }
  const auto json = parse_json(index, file->text(), kHint);
  if (!json) {
    return json.error();
  }
  const auto weights = json->is_object() ? json->find("weight_map") : json->end();
  if (!json->is_object() || weights == json->end() || !weights->is_object() || weights->empty()) {
    return Error{index + ": has no object 'weight_map' with tensors in it", kHint};
  }
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : weights->items()) {
    const auto* shard = value.is_string() ? &value.get_ref<const std::string&>() : nullptr;
    if (!shard || shard->empty() ||
        shard->find_first_of(std::string_view("/\0", 2)) != shard->npos) {
      return Error{
          index + ": weight_map names no file of this directory for tensor " + quote(name), kHint};
    }
    result[name] = *shard;
  }
  return result;
}

Result<void> check_present(const std::string& directory, const std::set<std::string>& files) {
  std::string missing;
  for (const auto& file : files) {
    if (access((directory + "/" + file).c_str(), F_OK) != 0) {
      missing += (missing.empty() ? "" : ", ") + file;
    }
  }
  if (missing.empty()) {
    return {};
  }
  return Error{directory + ": " + kIndex + " names files that are not there: " + missing,
               "copy them as well"};
}

} // namespace

struct TensorFiles::Mapping {
  MappedFile file;
};

Result<TensorFiles> TensorFiles::open(const std::string& directory) {
  constexpr const char* kHint = "model_name_or_path is a Hugging Face model directory";
  TensorFiles result;
  const auto add = [&](const std::string& name) -> Result<std::map<std::string, TensorView>> {
    const std::string path = directory + "/" + name;
    auto file = MappedFile::open(path, kHint);
    if (!file) {
      return file.error();
    }
    auto mapping = std::make_shared<const Mapping>(Mapping{*std::move(file)});
    result.mappings_.push_back(mapping);
    return parse_tensor_file(path, mapping->file.bytes());
  };

  if (access((directory + "/" + kSingle).c_str(), F_OK) == 0) {
    auto tensors = add(kSingle);
    if (!tensors) {
      return tensors.error();
    }
    result.tensors_ = *std::move(tensors);
    return result;
  }
  const std::string index = directory + "/" + kIndex;
  if (access(index.c_str(), F_OK) != 0) {
    return Error{directory + ": has neither " + kSingle + " nor " + kIndex, kHint};
  }
  const auto weights = read_weight_map(index);
  if (!weights) {
    return weights.error();
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : *weights) {
    files.insert(file);
  }
  if (auto present = check_present(directory, files); !present) {
    return present.error();
  }
  std::map<std::string, std::map<std::string, TensorView>> shards;
  for (const auto& file : files) {
    auto tensors = add(file);
    if (!tensors) {
      return tensors.error();
    }
    shards[file] = *std::move(tensors);
  }
  for (const auto& [tensor, file] : *weights) {
    const auto found = shards[file].find(tensor);
    if (found == shards[file].end()) {
      return Error{index + ": tensor " + quote(tensor) + " is not in " + file +
                       ", where the index says it is",
                   "index and files belong to different models; copy all of them again"};
    }
    result.tensors_.emplace(tensor, found->second);
  }
  return result;
}

Result<TensorView> TensorFiles::find(const std::string& name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) {
    return found->second;
  }
  const auto near = nearest_name(name, names());
  return Error{"the model has no tensor " + quote(name),
               near ? "the nearest name in it is " + quote(*near) +
                          "; is config.json of this model?"
                    : "is config.json of this model?"};
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> result;
  for (const auto& [name, view] : tensors_) {
    result.push_back(name);
  }
  return result;
}

} // namespace dist_train
