//===- launch.cpp - Launches kernels from a manifest ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a program of an artifact by the driver alone, as
// docs/reference/manifest.md describes. Runs it again through the runtime on
// the same memory and compares the outputs.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "Sizes.h"

#include <fp8moe-c/Runtime.h>

#include <fstream>
#include <iostream>
#include <map>

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the data of an input. Integers are group ends, which ascend to the
/// number of rows. Other types get arbitrary bytes.
static std::string makeInput(const json &decl, int64_t bytes, int64_t rows) {
  std::string data(bytes, '\0');
  if (decl["dtype"] == "I32") {
    auto *ends = reinterpret_cast<int32_t *>(&data[0]);
    int64_t count = bytes / int64_t(sizeof(int32_t));
    for (int64_t i = 0; i < count; ++i)
      ends[i] = int32_t((i + 1) * rows / count);
    return data;
  }
  uint32_t state = 1;
  for (char &byte : data)
    byte = char((state = state * 1664525 + 1013904223) >> 24);
  return data;
}

/// Returns the CUtensorMapDataType. 8-bit floats are bytes.
static int getTensorMapType(const std::string &dtype) {
  static const std::map<std::string, int> types = {
      {"U16", 1}, {"U32", 2}, {"I32", 3}, {"U64", 4}, {"I64", 5},
      {"F16", 6}, {"F32", 7}, {"F64", 8}, {"BF16", 9}};
  auto found = types.find(dtype);
  return found == types.end() ? 0 : found->second;
}

/// Returns how often `bytes` can be halved down to `first`, plus 1; 0 for 0
/// bytes.
static int getGranularity(int bytes, int first) {
  int number = 0;
  for (; bytes >= first; bytes /= 2)
    ++number;
  return number;
}

static TensorMapShape describe(const json &map, const json &program,
                               Sizes &sizes) {
  size_t buffer = map["buffer"];
  const std::string dtype = program["buffers"][buffer]["dtype"];
  int64_t bytes = getElementBytes(dtype);
  TensorMapShape shape = {};
  shape.type = getTensorMapType(dtype);
  shape.rank = unsigned(map["sizes"].size());
  shape.address =
      sizes.addresses[buffer] +
      (map.contains("offset") ? sizes.get(map["offset"]) : 0) * bytes;
  for (size_t i = 0; i < shape.rank; ++i) {
    shape.sizes[i] = uint64_t(sizes.get(map["sizes"][i]));
    shape.box[i] = map["box"][i];
    if (i > 0)
      shape.strides[i - 1] = uint64_t(sizes.get(map["strides"][i - 1]) * bytes);
  }
  shape.swizzle = getGranularity(map["swizzle"], 32);
  shape.promotion = getGranularity(map.value("promotion", 0), 64);
  return shape;
}

/// Launches the kernels of a program whose buffers have addresses.
static void launchAll(const json &program, Sizes &sizes, const Driver &driver) {
  for (const json &launch : program["launches"]) {
    if (launch.contains("when") && sizes.get(launch["when"]) == 0)
      continue;
    LaunchShape shape = {};
    bool isEmpty = false;
    for (size_t i = 0; i < 3; ++i) {
      shape.grid[i] = unsigned(sizes.get(launch["grid"][i]));
      shape.block[i] = launch["block"][i];
      shape.cluster[i] =
          launch.contains("cluster") ? launch["cluster"][i].get<unsigned>() : 1;
      isEmpty |= shape.grid[i] == 0;
    }
    if (isEmpty)
      continue;
    shape.shared = launch["shared"];
    shape.cooperative = launch.value("cooperative", false);
    shape.programmatic = launch.value("programmatic", false);

    // A kernel parameter is the address of its value: 8 bytes, or a tensor map.
    const json &args = launch["args"];
    std::vector<int64_t> words(args.size());
    std::vector<TensorMap> maps(args.size());
    std::vector<void *> params;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].contains("tensor_map")) {
        const json &map = program["tensor_maps"][size_t(args[i]["tensor_map"])];
        maps[i] = driver.encode(describe(map, program, sizes));
        params.push_back(&maps[i]);
        continue;
      }
      words[i] = args[i].contains("buffer")
                     ? reinterpret_cast<int64_t>(
                           sizes.addresses[size_t(args[i]["buffer"])])
                     : sizes.get(args[i]);
      params.push_back(&words[i]);
    }
    driver.launch(driver.getKernel(launch["kernel"], shape.shared), shape,
                  params.data());
  }
  driver.wait();
}

/// Runs the program through the runtime in the buffers' memory.
static void runByRuntime(const std::string &folder, const json &program,
                         Sizes &sizes, const Driver &driver) {
  auto check = [](bool isGood) {
    if (!isGood)
      throw Error(fp8moe_last_error());
  };
  fp8moe_artifact *artifact = nullptr;
  check(fp8moe_artifact_load(folder.c_str(), driver.isCuda() ? "cuda" : "hip",
                             &artifact) == FP8MOE_OK);
  std::vector<std::vector<int64_t>> shapes;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (size_t i = 0; i < program["buffers"].size(); ++i) {
    const json &decl = program["buffers"][i];
    if (decl["role"] == "output")
      outputs.push_back(sizes.addresses[i]);
    if (decl["role"] != "input")
      continue;
    inputs.push_back(sizes.addresses[i]);
    shapes.emplace_back();
    for (size_t dim = 0; dim < decl["shape"].size(); ++dim)
      shapes.back().push_back(sizes.getExtent(i, dim));
    // Strides follow after the extents.
    for (size_t dim = 0; dim < decl["shape"].size(); ++dim)
      shapes.back().push_back(sizes.getStride(i, dim));
  }
  std::vector<fp8moe_tensor> tensors;
  for (const std::vector<int64_t> &shape : shapes)
    tensors.push_back({FP8MOE_DTYPE_UNKNOWN, int32_t(shape.size() / 2),
                       shape.data(), shape.data() + shape.size() / 2});
  fp8moe_call *call = nullptr;
  const std::string name = program["name"];
  const fp8moe_program *found =
      fp8moe_artifact_find_program(artifact, name.c_str());
  check(found);
  check(fp8moe_program_resolve(found, tensors.data(), tensors.size(), &call) ==
        FP8MOE_OK);
  uint64_t bytes = fp8moe_call_workspace_bytes(call);
  check(fp8moe_call_run(call, inputs.data(), outputs.data(),
                        driver.allocate(bytes), bytes,
                        /*stream=*/nullptr) == FP8MOE_OK);
  driver.wait();
  fp8moe_call_destroy(call);
  fp8moe_artifact_unload(artifact);
}

static void run(const std::string &folder, const std::string &name,
                int64_t rows) {
  json manifest = json::parse(readFile(folder + "/manifest.json"));
  const json *program = nullptr;
  for (const json &each : manifest["programs"])
    if (each["name"] == name)
      program = &each;
  if (!program)
    throw Error("the artifact has no program '" + name + "'");
  Driver driver(manifest["target"]["kind"]);
  bool isLoaded = false;
  for (const json &binary : manifest["binaries"])
    isLoaded =
        isLoaded ||
        driver.load(readFile(folder + "/" + binary["file"].get<std::string>()));
  if (!isLoaded)
    throw Error("the device takes no binary of the artifact");

  Sizes sizes(*program, rows, [&](const std::string &attribute) {
    return driver.getAttribute(attribute);
  });
  // Workspace may have any contents, before and after: here 0xff.
  std::vector<size_t> outputs;
  const json &buffers = (*program)["buffers"];
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = sizes.getBytes(i);
    char *address = driver.allocate(bytes);
    sizes.addresses.push_back(address);
    driver.upload(address, buffers[i]["role"] == "input"
                               ? makeInput(buffers[i], bytes, rows)
                               : std::string(bytes, '\xff'));
    if (buffers[i]["role"] == "output")
      outputs.push_back(i);
  }

  launchAll(*program, sizes, driver);
  std::vector<std::string> ours;
  for (size_t output : outputs) {
    int64_t bytes = sizes.getBytes(output);
    ours.push_back(driver.download(sizes.addresses[output], bytes));
    driver.upload(sizes.addresses[output], std::string(bytes, '\xff'));
  }
  runByRuntime(folder, *program, sizes, driver);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string theirs =
        driver.download(sizes.addresses[outputs[i]], ours[i].size());
    std::cout << buffers[outputs[i]]["name"].get<std::string>() << ": "
              << theirs.size() << " bytes "
              << (ours[i] == theirs ? "equal" : "differ") << "\n";
    if (ours[i] != theirs)
      throw Error("the runtime computes something else");
  }
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: launch FOLDER PROGRAM ROWS\n";
    return 2;
  }
  try {
    run(argv[1], argv[2], std::stoll(argv[3]));
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
