// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model.h"
#include "trainer/weights.h"

#include "trainer/json_text.h"
#include "trainer/mapped_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/statvfs.h>
#include <unistd.h>

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
  constexpr const char* kHint =
      "was it changed during the run? the weights are written; copy it beside them by hand";
  const std::string from = source + "/config.json";
  const auto text = MappedFile::open(from, kHint, kLargestConfigFile);
  if (!text)
    return text.error();
  auto config = parse_json<nlohmann::ordered_json>(from, text->text(), kHint);
  if (!config)
    return config.error();
  if (!config->is_object())
    return Error{from + " is not a JSON object any more", kHint};
  (*config)[config->contains("torch_dtype") ? "torch_dtype" : "dtype"] = type;
  const std::string path = directory / "config.json";
  std::ofstream out(path);
  out << config->dump(2) << '\n';
  out.close();
  if (!out)
    return cannot_write(path, "the disk is full or the folder is not writable");
  return {};
}

// Why the file could not be copied; empty when it was, or is not there to be copied.
std::string copy_companion(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const auto kind = fs::status(from, error).type();
  if (kind == fs::file_type::not_found)
    return "";
  if (!error && kind != fs::file_type::regular)
    return "it is not a regular file"; // reading a FIFO would hang
  if (!error)
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  return error ? error.message() : "";
}

// The weights are worth more than what lies beside them: a file that cannot be copied is only told.
void copy_companions(const std::string& source, const fs::path& directory) {
  for (const char* name : kCompanions) {
    const fs::path from = fs::path(source) / name;
    const std::string fault = copy_companion(from, directory / name);
    if (!fault.empty())
      std::fprintf(stderr,
                   "dist-trainer: warning: cannot copy %s to %s: %s; the weights are there\n",
                   from.c_str(), directory.c_str(), fault.c_str());
  }
}

// Makes and removes a file: the only test that permissions, quotas and read-only mounts all pass.
Result<void> try_to_write(const fs::path& directory) {
  std::string path = directory / ".dist-trainer-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0)
    return cannot_write(directory, std::strerror(errno));
  close(fd);
  unlink(path.c_str());
  return {};
}

Result<void> check_space(const fs::path& directory, uint64_t bytes) {
  struct statvfs status {};
  if (statvfs(directory.c_str(), &status) != 0 || status.f_blocks == 0)
    return {}; // a file system that does not count: writing will tell
  const uint64_t free = uint64_t(status.f_bavail) * status.f_frsize;
  if (free >= bytes)
    return {};
  return cannot_write(directory, "the model needs " + std::to_string(bytes >> 20) +
                                     " MiB, free are " + std::to_string(free >> 20) + " MiB");
}

Result<TensorWriter> start(const Sharding& sharding, const fs::path& directory) {
  const bool bf16 = sharding.type() == at::kBFloat16;
  std::vector<TensorSpec> specs;
  for (const Unit& unit : sharding.units())
    for (const Slot& slot : unit.slots)
      specs.push_back({slot.name, bf16 ? DType::bf16 : DType::f32, slot.shape});
  return TensorWriter::create(directory / "model.safetensors", specs);
}

} // namespace

Result<void> prepare_export(const std::string& source, const std::string& directory,
                            uint64_t bytes) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return cannot_write(directory, error.message());
  if (fs::equivalent(source, directory, error))
    return Error{"the export would overwrite the model it came from: " + directory,
                 "choose another output_dir"};
  for (const char* name : {"model.safetensors", "config.json"}) {
    const fs::path path = fs::path(directory) / name;
    const auto kind = fs::status(path, error).type();
    if (kind != fs::file_type::not_found && kind != fs::file_type::regular)
      return cannot_write(path, "something that is not a regular file has this name");
  }
  if (auto written = try_to_write(directory); !written)
    return written;
  return check_space(directory, bytes);
}

Result<void> export_model(Sharding& sharding, const std::string& source,
                          const std::string& directory) {
  const bool writes = sharding.leads();
  std::optional<Result<TensorWriter>> writer;
  if (writes)
    writer.emplace(start(sharding, directory));
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
  if (!writes || !result)
    return result;
  if (result = (*writer)->finish(); !result)
    return result;
  const bool bf16 = sharding.type() == at::kBFloat16;
  if (result = write_config(source, directory, bf16 ? "bfloat16" : "float32"); result)
    copy_companions(source, directory);
  return result;
}

} // namespace dist_train
