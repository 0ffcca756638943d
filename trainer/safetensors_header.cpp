// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/safetensors_header.h"

#include "trainer/json_text.h"
#include "trainer/text_place.h"

#include <algorithm>
#include <limits>

namespace dist_train {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000; // the format's own limit
constexpr const char* kCopyAgain = "the file is damaged or not safetensors; copy it again";

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16}};

uint64_t read_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    value |= uint64_t(bytes[i]) << (8 * i);
  }
  return value;
}

// A list of integers in 0 .. 2^63-1, or nullopt.
std::optional<std::vector<int64_t>> integers(const nlohmann::json& object, const char* name) {
  const auto list = object.find(name);
  if (list == object.end() || !list->is_array()) {
    return {};
  }
  std::vector<int64_t> result;
  for (const auto& element : *list) {
    constexpr auto kLargest = uint64_t(std::numeric_limits<int64_t>::max());
    if (!element.is_number_unsigned() || element.get<uint64_t>() > kLargest) {
      return {};
    }
    result.push_back(element.get<int64_t>());
  }
  return result;
}

struct Entry {
  std::string name;
  TensorView view;
  uint64_t begin, end; // into the data after the header
};

Result<Entry> parse_entry(const std::string& file, const std::string& name,
                          const nlohmann::json& value) {
  const std::string tensor = file + ": tensor " + quote(name) + ": ";
  if (!value.is_object()) {
    return Error{tensor + "is " + json_kind(value) + ", not an object", kCopyAgain};
  }
  const auto type = value.find("dtype");
  if (type == value.end() || !type->is_string()) {
    return Error{tensor + "has no dtype", kCopyAgain};
  }
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) {
    return type->get_ref<const std::string&>() == t.name;
  });
  if (known == std::end(kTypes)) {
    return Error{tensor + "has the element type " + quote(type->get_ref<const std::string&>()),
                 "only F32, BF16 and F16 can be trained; convert the model, quantised weights "
                 "included"};
  }
  const auto shape = integers(value, "shape");
  const auto offsets = integers(value, "data_offsets");
  if (!shape || !offsets || offsets->size() != 2) {
    return Error{tensor + "shape or data_offsets is not a list of integers", kCopyAgain};
  }
  const auto expected = tensor_bytes(known->dtype, *shape);
  const auto begin = uint64_t((*offsets)[0]), end = uint64_t((*offsets)[1]);
  if (!expected || begin > end || end - begin != *expected) {
    return Error{tensor + "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                     "] do not fit the shape, which takes " +
                     (expected ? std::to_string(*expected) + " bytes" : "more than 2^63 bytes"),
                 kCopyAgain};
  }
  return Entry{name, {known->dtype, *shape, {}}, begin, end};
}

// The header's text, or what is wrong with the beginning of the file.
Result<std::string_view> header_text(const std::string& file, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    return Error{file + ": is a git-lfs pointer, not the weights", "run 'git lfs pull' there"};
  }
  if (bytes.size() < kLengthBytes) {
    return Error{file + ": truncated: the file has " + std::to_string(bytes.size()) +
                     " bytes, a safetensors file at least 8",
                 "copy it again"};
  }
  const uint64_t length = read_little_endian(bytes);
  if (length > kLongestHeader) {
    return Error{file + ": not a safetensors file: its first 8 bytes say that the header has " +
                     std::to_string(length) + " bytes; at most " + std::to_string(kLongestHeader) +
                     " are allowed",
                 kCopyAgain};
  }
  if (length > bytes.size() - kLengthBytes) {
    return Error{file + ": truncated: the header alone takes " +
                     std::to_string(kLengthBytes + length) + " bytes, the file has " +
                     std::to_string(bytes.size()),
                 "copy it again"};
  }
  return text.substr(kLengthBytes, size_t(length));
}

} // namespace

size_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  constexpr auto kLargest = uint64_t(std::numeric_limits<int64_t>::max());
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; })) {
    return {};
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return 0;
  }
  uint64_t bytes = size_of(dtype);
  for (const int64_t dimension : shape) {
    if (bytes > kLargest / uint64_t(dimension)) {
      return {};
    }
    bytes *= uint64_t(dimension);
  }
  return bytes;
}

Result<std::map<std::string, TensorView>> parse_tensor_file(const std::string& file,
                                                            std::span<const std::byte> bytes) {
  const auto text = header_text(file, bytes);
  if (!text) {
    return text.error();
  }
  const auto header = parse_json(file + " (header)", *text, kCopyAgain);
  if (!header) {
    return header.error();
  }
  if (!header->is_object()) {
    return Error{file + ": the header is " + json_kind(*header) + ", not an object", kCopyAgain};
  }
  std::vector<Entry> entries;
  for (const auto& [name, value] : header->items()) {
    if (name == "__metadata__") {
      continue;
    }
    auto entry = parse_entry(file, name, value);
    if (!entry) {
      return entry.error();
    }
    entries.push_back(*std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      return Error{file + ": tensor " + quote(entry.name) + ": begins at byte " +
                       std::to_string(entry.begin) + " of the data, where byte " +
                       std::to_string(end) + " is next: tensors overlap or leave a gap",
                   kCopyAgain};
    }
    end = entry.end;
  }
  const auto data = bytes.subspan(kLengthBytes + text->size());
  if (end != data.size()) {
    const uint64_t promised = kLengthBytes + text->size() + end;
    return Error{file + (end > data.size() ? ": truncated" : ": too long") +
                     ": the header promises " + std::to_string(promised) + " bytes, the file has " +
                     std::to_string(bytes.size()),
                 "copy it again"};
  }
  std::map<std::string, TensorView> result;
  for (Entry& entry : entries) {
    entry.view.bytes = data.subspan(size_t(entry.begin), size_t(entry.end - entry.begin));
    result.emplace(std::move(entry.name), std::move(entry.view));
  }
  return result;
}

std::string make_tensor_header(const std::vector<TensorSpec>& specs) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t begin = 0;
  for (const auto& spec : specs) {
    const uint64_t end = begin + tensor_bytes(spec.dtype, spec.shape).value_or(0);
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeName& t) { return t.dtype == spec.dtype; });
    header[spec.name] = {
        {"dtype", type->name}, {"shape", spec.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length += char(uint64_t(text.size()) >> (8 * i) & 0xFF);
  }
  return length + text;
}

} // namespace dist_train
