//===- TestArtifact.cpp - Artifacts made by hand for tests ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace fp8moe::runtime::test;

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TestArtifact::TestArtifact() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "fp8moe-test-XXXXXX").string();
  folder = ::mkdtemp(pattern.data());
}

TestArtifact::~TestArtifact() { std::filesystem::remove_all(folder); }

void TestArtifact::write(const std::string &name,
                         const std::string &bytes) const {
  std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
}

void TestArtifact::writeManifest(json manifest) const {
  json noBinaries = json::array();
  for (json &binary :
       manifest.contains("binaries") ? manifest["binaries"] : noBinaries) {
    if (binary.contains("xxh3"))
      continue;
    std::string bytes = readFile(folder + "/" + binary.value("file", ""));
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx",
                  (unsigned long long)XXH3_64bits(bytes.data(), bytes.size()));
    binary["xxh3"] = digits;
  }
  write("manifest.json", manifest.dump(2));
}

void TestArtifact::writeCpuKernels() const {
  std::filesystem::copy_file(FP8MOE_TEST_KERNELS, folder + "/kernels.so");
}

json fp8moe::runtime::test::makeCpuManifest(json programs) {
  return {{"schema", 1},
          {"min_runtime", "0.1.0"},
          {"producer", "test"},
          {"target", {{"chip", "cpu"}, {"kind", "cpu"}, {"fp8", "fn"}}},
          {"binaries", {{{"file", "kernels.so"}, {"format", "so"}}}},
          {"programs", std::move(programs)},
          {"decisions", json::array()}};
}

json fp8moe::runtime::test::makeTwiceProgram() {
  return json::parse(R"({
    "name": "twice",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "F32",
       "shape": [{"dim": [0, 0]}, 3], "strides": [3, 1], "align": 16},
      {"role": "output", "name": "y", "dtype": "F32",
       "shape": [{"value": 0}, 3], "strides": [1, {"value": 0}], "align": 16}],
    "values": [{"op": "dim", "args": [0, 0]}],
    "launches": [
      {"kernel": "twice", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0,
       "args": [{"buffer": 0}, {"buffer": 1}, {"value": 0}, 3, 1,
                {"value": 0}]}]
  })");
}

json fp8moe::runtime::test::makeSizesProgram(json values, json results) {
  json program = json::parse(R"({
    "name": "sizes",
    "buffers": [
      {"role": "input", "name": "x", "dtype": "F32",
       "shape": [{"dim": [0, 0]}, {"dim": [0, 1]}],
       "strides": [{"stride": [0, 0]}, {"stride": [0, 1]}], "align": 4},
      {"role": "output", "name": "out", "dtype": "I64", "shape": [3],
       "strides": [1], "align": 8}],
    "values": [],
    "launches": [
      {"kernel": "store", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0,
       "args": [{"buffer": 1}]}]
  })");
  program["values"] = std::move(values);
  for (json &result : results)
    program["launches"][0]["args"].push_back(result);
  return program;
}

LoadedArtifact::LoadedArtifact(const std::string &path, const char *device) {
  status = fp8moe_artifact_load(path.c_str(), device, &artifact);
  if (status != FP8MOE_OK)
    error = fp8moe_last_error();
}

LoadedArtifact::~LoadedArtifact() { fp8moe_artifact_unload(artifact); }

const fp8moe_program *LoadedArtifact::program() const {
  return fp8moe_artifact_program(artifact, 0);
}

ResolvedCall::ResolvedCall(const fp8moe_program *program,
                           const std::vector<Input> &inputs) {
  std::vector<fp8moe_tensor> tensors;
  for (const Input &input : inputs)
    tensors.push_back({input.dtype, int32_t(input.shape.size()),
                       input.shape.data(),
                       input.strides.empty() ? nullptr : input.strides.data()});
  status =
      fp8moe_program_resolve(program, tensors.data(), tensors.size(), &call);
  if (status != FP8MOE_OK)
    error = fp8moe_last_error();
}

ResolvedCall::~ResolvedCall() { fp8moe_call_destroy(call); }

json ResolvedCall::describe() const {
  char *text = nullptr;
  if (fp8moe_call_describe(call, &text) != FP8MOE_OK)
    return nullptr;
  json result = json::parse(text);
  fp8moe_string_free(text);
  return result;
}

void fp8moe::runtime::test::expectContains(const std::string &text,
                                           const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "expected \"" << part << "\" in \"" << text << "\"";
}
