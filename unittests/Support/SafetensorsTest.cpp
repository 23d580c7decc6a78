//===- SafetensorsTest.cpp - Reading and writing safetensors files --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Support/Safetensors.h"
#include "gtest/gtest.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace fp8moe::support;

namespace {

class SafetensorsTest : public ::testing::Test {
protected:
  SafetensorsTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fp8moe-safetensors-XXXXXX")
            .string();
    folder = ::mkdtemp(pattern.data());
    path = folder + "/file.safetensors";
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder); }

  void writeBytes(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  /// Writes a file with that header and `dataBytes` bytes of data.
  void writeFile(const std::string &header, size_t dataBytes) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i)
      bytes[i] = char(uint64_t(header.size()) >> (8 * i));
    writeBytes(bytes + header + std::string(dataBytes, 'x'));
  }

  /// Returns the error of opening the file, or an empty string.
  std::string open() {
    std::string error;
    return SafetensorsFile::open(path, error) ? "" : error;
  }

  void expectError(const std::string &part) {
    std::string error = open();
    EXPECT_NE(error.find(part), std::string::npos)
        << "expected \"" << part << "\" in \"" << error << "\"";
    EXPECT_EQ(error.find(path), 0u) << error;
  }

  std::string readBytes() {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

  std::string folder, path;
};

SafetensorsTensor makeTensor(const char *name, const char *dtype,
                             std::vector<int64_t> shape, const void *data) {
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = findDataType(dtype);
  tensor.shape = std::move(shape);
  tensor.data = data;
  return tensor;
}

TEST_F(SafetensorsTest, RoundTrip) {
  uint16_t bf16[6] = {1, 2, 3, 4, 5, 6};
  uint8_t fp8[5] = {10, 20, 30, 40, 50};
  int32_t scalar = -7;
  std::string error;
  ASSERT_TRUE(writeSafetensors(path,
                               {makeTensor("q", "F8_E4M3FNUZ", {5}, fp8),
                                makeTensor("x", "BF16", {2, 3}, bf16),
                                makeTensor("none", "F32", {0, 8}, nullptr),
                                makeTensor("n", "I32", {}, &scalar)},
                               {{"made_by", "test"}}, error))
      << error;

  std::optional<SafetensorsFile> file = SafetensorsFile::open(path, error);
  ASSERT_TRUE(file) << error;
  EXPECT_EQ(file->metadata().at("made_by"), "test");
  ASSERT_EQ(file->tensors().size(), 4u);
  const SafetensorsTensor *x = file->find("x");
  ASSERT_TRUE(x);
  EXPECT_STREQ(x->dtype->name, "BF16");
  EXPECT_EQ(x->shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(x->bytes, sizeof(bf16));
  EXPECT_EQ(std::memcmp(x->data, bf16, sizeof(bf16)), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x->data) % 2, 0u);
  EXPECT_EQ(std::memcmp(file->find("q")->data, fp8, sizeof(fp8)), 0);
  EXPECT_EQ(std::memcmp(file->find("n")->data, &scalar, 4), 0);
  EXPECT_TRUE(file->find("n")->shape.empty());
  EXPECT_EQ(file->find("none")->bytes, 0u);
  EXPECT_EQ(file->find("absent"), nullptr);

  // A copy of the object keeps the data alive.
  SafetensorsFile copy = *file;
  file.reset();
  EXPECT_EQ(std::memcmp(copy.find("x")->data, bf16, sizeof(bf16)), 0);
}

TEST_F(SafetensorsTest, WritingIsDeterministic) {
  uint8_t data[8] = {};
  SafetensorsTensor a = makeTensor("a", "U8", {3}, data),
                    b = makeTensor("b", "F32", {2}, data);
  std::string error;
  ASSERT_TRUE(writeSafetensors(path, {a, b}, {}, error));
  std::string first = readBytes();
  ASSERT_TRUE(writeSafetensors(path, {b, a}, {}, error));
  EXPECT_EQ(first, readBytes());
  EXPECT_EQ(first.size() % 8, 3u);
  // No temporary file is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(SafetensorsTest, LinksAreWrittenThrough) {
  std::string error, link = folder + "/link";
  uint8_t data[1] = {};
  std::filesystem::create_symlink(path, link);
  EXPECT_TRUE(
      writeSafetensors(link, {makeTensor("a", "U8", {1}, data)}, {}, error))
      << error;
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(readBytes().empty());
}

TEST_F(SafetensorsTest, WritingFails) {
  std::string error;
  uint8_t data[1] = {};
  SafetensorsTensor a = makeTensor("a", "U8", {1}, data);
  EXPECT_FALSE(writeSafetensors("/nonexistent/file", {a}, {}, error));
  EXPECT_EQ(error, "/nonexistent/file: No such file or directory");
  EXPECT_FALSE(writeSafetensors(path, {a, a}, {}, error));
  EXPECT_EQ(error, path + ": the name 'a' is taken");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SafetensorsTest, TruncatedFiles) {
  uint16_t data[64] = {};
  std::string error;
  ASSERT_TRUE(writeSafetensors(path, {makeTensor("x", "BF16", {8, 8}, data)},
                               {}, error));
  std::string whole = readBytes();
  ASSERT_EQ(open(), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    writeBytes(whole.substr(0, length));
    EXPECT_NE(open(), "") << length;
  }
  writeBytes(whole.substr(0, 5));
  expectError("has 5 bytes, too few for the length of the header");
  writeBytes(whole.substr(0, 20));
  expectError("but only 12 follow its length; the file is truncated");
  writeBytes(whole.substr(0, whole.size() - 1));
  expectError("tensor 'x': its data ends at byte 128, but the file holds 127 "
              "bytes of data; the file is truncated");
}

TEST_F(SafetensorsTest, BadHeaders) {
  EXPECT_NE(open(), ""); // the file does not exist
  writeBytes(std::string(8, '\xff'));
  expectError("more than the format's limit");
  writeFile("{", 0);
  expectError("the header is no valid JSON: parse error");
  writeFile("[]", 0);
  expectError("the header must be a JSON object");
  writeFile(R"({"a": 5})", 0);
  expectError("tensor 'a': expected an object, found 5");
  writeFile(R"({"__metadata__": {"a": 5}})", 0);
  expectError("'__metadata__' must map to strings, but 'a' is 5");
  writeFile("{}", 0);
  EXPECT_EQ(open(), "");
}

TEST_F(SafetensorsTest, DeepHeaders) {
  std::string nested = std::string(1000000, '[') + std::string(1000000, ']');
  for (const std::string &header :
       {nested, "{\"a\": " + nested + "}", "{\"__metadata__\": " + nested + "}",
        R"({"a": {"dtype": "F32", "shape": )" + nested + "}}"}) {
    writeFile(header, 0);
    expectError("arrays and objects are nested more than 64 deep");
  }
}

TEST_F(SafetensorsTest, FilesThatBlock) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expectError("not a regular file");
}

TEST_F(SafetensorsTest, BadTensors) {
  auto header = [](const std::string &dtype, const std::string &shape,
                   const std::string &offsets) {
    return "{\"a\": {\"dtype\": " + dtype + ", \"shape\": " + shape +
           ", \"data_offsets\": " + offsets + "}}";
  };
  writeFile(header("\"F32\"", "[2]", "[0, 8]"), 8);
  EXPECT_EQ(open(), "");
  writeFile(header("\"F4\"", "[2]", "[0, 8]"), 8);
  expectError("tensor 'a': unknown dtype \"F4\"; known are BOOL, U8");
  writeFile(header("\"F32\"", "[-2]", "[0, 8]"), 8);
  expectError("'shape' must hold integers from 0");
  writeFile(header("\"F32\"", "2", "[0, 8]"), 8);
  expectError("'shape' must be an array");
  writeFile(header("\"F32\"", "[4294967296, 4294967296]", "[0, 0]"), 0);
  expectError("overflows 64 bits");
  writeFile(header("\"F32\"", "[2]", "[0]"), 8);
  expectError("'data_offsets' must be [begin, end]");
  writeFile(header("\"F32\"", "[2]", "[8, 0]"), 8);
  expectError("'data_offsets' end before they begin");
  writeFile(header("\"F32\"", "[2]", "[0, 4]"), 8);
  expectError("span 4 bytes, but F32 of shape [2] has 8");
  writeFile(R"({"a": {"dtype": "F32", "shape": [2]}})", 8);
  expectError("tensor 'a': has no 'data_offsets'");
}

TEST_F(SafetensorsTest, OverlapsAndHoles) {
  auto header = [](int firstEnd, int secondBegin) {
    auto tensor = [](const char *name, int begin, int end) {
      return "\"" + std::string(name) + "\": {\"dtype\": \"U8\", \"shape\": [" +
             std::to_string(end - begin) + "], \"data_offsets\": [" +
             std::to_string(begin) + ", " + std::to_string(end) + "]}";
    };
    return "{" + tensor("b", secondBegin, 8) + ", " + tensor("a", 0, firstEnd) +
           "}";
  };
  writeFile(header(4, 4), 8);
  EXPECT_EQ(open(), "");
  writeFile(header(5, 4), 8);
  expectError("tensor 'b' overlaps the one before it");
  writeFile(header(4, 6), 8);
  expectError("there are 2 bytes of no tensor before 'b'");
  writeFile(header(4, 4), 9);
  expectError("there are 1 bytes of no tensor at the end");
}

TEST_F(SafetensorsTest, FilesOver4GiB) {
  // A sparse file takes no space. It has a tensor of 2^32 + 1 bytes, then
  // another one.
  constexpr uint64_t large = (uint64_t(1) << 32) + 1;
  std::string header =
      R"({"big": {"dtype": "U8", "shape": [4294967297], "data_offsets": [0, 4294967297]},
          "end": {"dtype": "U8", "shape": [1], "data_offsets": [4294967297, 4294967298]}})";
  writeFile(header, 0);
  uint64_t size = 8 + header.size() + large + 1;
  std::filesystem::resize_file(path, size - 1);
  std::ofstream(path, std::ios::binary | std::ios::app) << 'z';
  std::string error;
  std::optional<SafetensorsFile> file = SafetensorsFile::open(path, error);
  ASSERT_TRUE(file) << error;
  EXPECT_EQ(file->find("big")->bytes, large);
  EXPECT_EQ(*static_cast<const char *>(file->find("end")->data), 'z');
}

} // namespace
