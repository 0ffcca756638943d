// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/safetensors.h"
#include "trainer/safetensors_header.h"

#include "temp_folder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace dist_train {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string error_of(const std::string& content) {
  TempFolder folder;
  folder.write("model.safetensors", content);
  const auto files = TensorFiles::open(folder.path());
  if (files) {
    return "no error";
  }
  EXPECT_FALSE(files.error().hint.empty());
  return files.error().message;
}

void expect_part(const std::string& whole, const std::string& part) {
  EXPECT_NE(whole.find(part), std::string::npos) << whole;
}

const std::string kGood = R"({"__metadata__":{"format":"pt"},)"
                          R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b.weight":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]}})";

TEST(Safetensors, ReadsAFile) {
  TempFolder folder;
  folder.write("model.safetensors", file_of(kGood, "12345678abcdef"));
  const auto files = TensorFiles::open(folder.path());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->names(), (std::vector<std::string>{"a", "b.weight"}));
  const auto b = files->find("b.weight");
  ASSERT_TRUE(b);
  EXPECT_EQ(b->dtype, DType::bf16);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{1, 3}));
  ASSERT_EQ(b->bytes.size(), 6u);
  EXPECT_EQ(std::memcmp(b->bytes.data(), "abcdef", 6), 0);
  const auto missing = files->find("b.wieght");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "the model has no tensor 'b.wieght'");
  expect_part(missing.error().hint, "'b.weight'");
}

TEST(Safetensors, ViewsOutliveCopiesOfTheSet) {
  TempFolder folder;
  folder.write("model.safetensors", file_of(kGood, "12345678abcdef"));
  auto files = TensorFiles::open(folder.path());
  ASSERT_TRUE(files);
  TensorFiles copy = *files;
  *files = TensorFiles();
  EXPECT_EQ(std::memcmp(copy.find("a")->bytes.data(), "12345678", 8), 0);
}

TEST(Safetensors, DamagedFiles) {
  const std::string whole = file_of(kGood, "12345678abcdef");
  const std::string size = std::to_string(whole.size());
  expect_part(error_of(whole.substr(0, whole.size() - 1)), "truncated: the header promises " +
                                                               size + " bytes, the file has " +
                                                               std::to_string(whole.size() - 1));
  expect_part(error_of(whole + "x"), "too long");
  expect_part(error_of(""), "truncated: the file has 0 bytes");
  expect_part(error_of("1234567"), "truncated: the file has 7 bytes");
  expect_part(error_of(whole.substr(0, 40)), "truncated: the header alone takes");
  expect_part(error_of(std::string(100, '\xFF')), "not a safetensors file");
  expect_part(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:12\n"), "git-lfs");
  expect_part(error_of(file_of("", "")), "not JSON");
  expect_part(error_of(file_of("{\"a\":", "")), "(header):1:6: not JSON");
  expect_part(error_of(file_of("{\"\xFF\":1}", "")), "not JSON");
  expect_part(error_of(file_of("[]", "")), "the header is a list");
}

// One tensor whose entry is `entry`, in a file of 8 bytes of data.
std::string entry_error(const std::string& entry) {
  return error_of(file_of("{\"t\":" + entry + "}", "12345678"));
}

TEST(Safetensors, EntriesThatLie) {
  expect_part(entry_error("3"), "tensor 't': is a number");
  expect_part(entry_error("{}"), "has no dtype");
  expect_part(entry_error(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})"), "has no dtype");
  expect_part(entry_error(R"({"dtype":"I64","shape":[1],"data_offsets":[0,8]})"),
              "element type 'I64'");
  for (const char* shape : {"[-2]", "[2.0]", "\"2\"", "[\"2\"]", "[18446744073709551615]", "2"}) {
    expect_part(
        entry_error(R"({"dtype":"F32","data_offsets":[0,8],"shape":)" + std::string(shape) + "}"),
        "not a list of integers");
  }
  for (const char* offsets : {"[0]", "[0,8,9]", "{}", "[0,-8]", "null"}) {
    expect_part(
        entry_error(R"({"dtype":"F32","shape":[2],"data_offsets":)" + std::string(offsets) + "}"),
        "not a list of integers");
  }
  expect_part(entry_error(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "do not fit");
  expect_part(entry_error(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "do not fit");
  expect_part(
      entry_error(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
      "more than 2^63");
  expect_part(entry_error(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "leave a gap");
  expect_part(error_of(file_of(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                               R"("b":{"dtype":"F16","shape":[2],"data_offsets":[2,6]}})",
                               "123456")),
              "overlap");
  // Of a name given twice the last counts, and the bytes of the first are a gap.
  expect_part(error_of(file_of(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                               R"("a":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})",
                               "12345678")),
              "leave a gap");
}

// Whatever one byte becomes: an error, or views that lie inside the file.
TEST(Safetensors, AnyDamagedByte) {
  const std::string whole = file_of(kGood, "12345678abcdef");
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x01', ' ', '"', '0', '9', '-', '[', '}', '\x7F', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] = value;
      const auto bytes = std::as_bytes(std::span(damaged));
      const auto tensors = parse_tensor_file("f", bytes);
      refused += !tensors;
      for (const auto& [name, view] : tensors ? *tensors : std::map<std::string, TensorView>()) {
        EXPECT_EQ(view.bytes.size(), tensor_bytes(view.dtype, view.shape)) << name;
        EXPECT_GE(view.bytes.data(), bytes.data());
        EXPECT_LE(view.bytes.data() + view.bytes.size(), bytes.data() + bytes.size());
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(Safetensors, EmptyTensorsAndScalars) {
  EXPECT_EQ(error_of(file_of(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("e":{"dtype":"F32","shape":[0,9],"data_offsets":[4,4]}})",
                             "1234")),
            "no error");
  EXPECT_EQ(tensor_bytes(DType::f32, {INT64_MAX, 0}), 0u);
  EXPECT_EQ(tensor_bytes(DType::f16, {INT64_MAX}), std::nullopt);
}

TEST(Safetensors, Directories) {
  TempFolder folder;
  const auto error = [&](const std::string& directory) {
    const auto files = TensorFiles::open(directory);
    return files ? std::string("no error") : files.error().message;
  };
  expect_part(error(folder.path()), "has neither model.safetensors nor");
  expect_part(error(folder.path() + "/absent"), "has neither");
  mkdir((folder.path() + "/model.safetensors").c_str(), 0700);
  expect_part(error(folder.path()), "is a directory");
}

class Index : public testing::Test {
protected:
  void SetUp() override {
    folder.write("one.safetensors",
                 file_of(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "aa"));
    folder.write("two.safetensors",
                 file_of(R"({"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "bb"));
  }
  Result<TensorFiles> open(const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return TensorFiles::open(folder.path());
  }
  std::string error(const std::string& index) {
    const auto files = open(index);
    return files ? "no error" : files.error().message;
  }
  TempFolder folder;
};

TEST_F(Index, FindsTensorsInTheirFiles) {
  const auto files = open(R"({"metadata":{"total_size":4},)"
                          R"("weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(std::memcmp(files->find("b")->bytes.data(), "bb", 2), 0);
}

TEST_F(Index, Refused) {
  expect_part(error(R"({"weight_map":{"a":"one.safetensors","b":"three.safetensors","c":"four"}})"),
              "not there: four, three.safetensors");
  expect_part(error(R"({"weight_map":{"a":"two.safetensors"}})"), "'a' is not in two.safetensors");
  expect_part(error(R"({"weight_map":{"a":"../one.safetensors"}})"), "no file of this directory");
  expect_part(error(R"({"weight_map":{"a":7}})"), "no file of this directory");
  expect_part(error(R"({"weight_map":[]})"), "has no object 'weight_map'");
  expect_part(error("[]"), "has no object 'weight_map'");
  expect_part(error(R"({"weight_map":{"a")"), ":1:19: not JSON");
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(SafetensorsWriter, WhatIsWrittenReadsBack) {
  TempFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  {
    auto writer = TensorWriter::create(
        path, {{"z", DType::f32, {2}}, {"a", DType::bf16, {1, 2}}, {"e", DType::f16, {0}}});
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->append(bytes_of("1234")));
    ASSERT_TRUE(writer->append(bytes_of("5678ab")));
    EXPECT_FALSE(std::filesystem::exists(path)); // nobody may see half a file
    ASSERT_TRUE(writer->append(bytes_of("cd")));
    ASSERT_TRUE(writer->finish());
  }
  const auto files = TensorFiles::open(folder.path());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(std::memcmp(files->find("z")->bytes.data(), "12345678", 8), 0);
  EXPECT_EQ(std::memcmp(files->find("a")->bytes.data(), "abcd", 4), 0);
  EXPECT_EQ(files->find("z")->bytes.size(), 8u);
  // Readers map the data as floats: it begins at a multiple of 8.
  EXPECT_EQ(make_tensor_header({{"z", DType::f32, {2}}}).size() % 8, 0u);
}

TEST(SafetensorsWriter, UnfinishedLeavesNothing) {
  TempFolder folder;
  {
    auto writer = TensorWriter::create(folder.path() + "/m", {{"a", DType::f32, {1}}});
    ASSERT_TRUE(writer);
    EXPECT_FALSE(writer->finish()); // four bytes are missing
    EXPECT_FALSE(writer->append(bytes_of("12345")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, Refused) {
  TempFolder folder;
  const auto absent = TensorWriter::create(folder.path() + "/absent/m", {});
  ASSERT_FALSE(absent);
  expect_part(absent.error().message, "No such file or directory");
  const auto twice =
      TensorWriter::create(folder.path() + "/m", {{"a", DType::f32, {1}}, {"a", DType::f32, {1}}});
  ASSERT_FALSE(twice);
  expect_part(twice.error().message, "'a'");
  EXPECT_FALSE(TensorWriter::create("/dev/full/m", {}));
}

} // namespace
} // namespace dist_train
