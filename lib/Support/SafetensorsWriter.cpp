//===- SafetensorsWriter.cpp - Writing safetensors files ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Support/Json.h"
#include "fp8moe/Support/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

using namespace fp8moe::support;

/// Computes `bytes` of every tensor and brings them into the file's order.
static void prepare(std::vector<SafetensorsTensor> &tensors) {
  for (SafetensorsTensor &tensor : tensors) {
    if (!tensor.dtype)
      throw std::runtime_error("tensor '" + tensor.name + "' has no dtype");
    tensor.bytes = tensor.dtype->bytes;
    for (int64_t extent : tensor.shape)
      if (extent < 0 ||
          __builtin_mul_overflow(tensor.bytes, uint64_t(extent), &tensor.bytes))
        throw std::runtime_error("tensor '" + tensor.name +
                                 "' has an impossible shape");
  }
  // Large elements first keep every tensor aligned to its element size.
  std::sort(tensors.begin(), tensors.end(), [](const auto &a, const auto &b) {
    if (a.dtype->bytes != b.dtype->bytes)
      return a.dtype->bytes > b.dtype->bytes;
    return a.name < b.name;
  });
}

static std::string
makeHeader(const std::vector<SafetensorsTensor> &tensors,
           const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsTensor &tensor : tensors) {
    if (header.contains(tensor.name) || tensor.name == "__metadata__")
      throw std::runtime_error("the name '" + tensor.name + "' is taken");
    header[tensor.name] = {{"dtype", tensor.dtype->name},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  // Trailing spaces align the data.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

static void writeBytes(std::FILE *file, const void *data, uint64_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file) != bytes)
    throw std::runtime_error(std::strerror(errno));
}

static void writeFile(std::FILE *file, const std::string &header,
                      const std::vector<SafetensorsTensor> &tensors) {
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = uint64_t(header.size()) >> (8 * i);
  writeBytes(file, length, sizeof(length));
  writeBytes(file, header.data(), header.size());
  for (const SafetensorsTensor &tensor : tensors)
    writeBytes(file, tensor.data, tensor.bytes);
  if (std::fflush(file) != 0)
    throw std::runtime_error(std::strerror(errno));
}

/// Whether a new file may take the place of what is at `path`. A device, a pipe
/// or a link stays what it is, and is written to.
static bool isReplaceable(const std::string &path) {
  std::error_code ignored;
  auto type = std::filesystem::symlink_status(path, ignored).type();
  return type == std::filesystem::file_type::not_found ||
         type == std::filesystem::file_type::regular;
}

bool fp8moe::support::writeSafetensors(
    const std::string &path, std::vector<SafetensorsTensor> tensors,
    const std::map<std::string, std::string> &metadata, std::string &error) {
  bool replaces = isReplaceable(path);
  std::string temporary =
      replaces ? path + ".tmp" + std::to_string(::getpid()) : path;
  std::FILE *file = nullptr;
  try {
    prepare(tensors);
    std::string header = makeHeader(tensors, metadata);
    file = std::fopen(temporary.c_str(), "wb");
    if (!file)
      throw std::runtime_error(std::strerror(errno));
    writeFile(file, header, tensors);
    int closed = std::fclose(file);
    file = nullptr;
    if (closed != 0 ||
        (replaces && std::rename(temporary.c_str(), path.c_str()) != 0))
      throw std::runtime_error(std::strerror(errno));
    return true;
  } catch (const std::exception &exception) {
    error = path + ": " + exception.what();
    if (file)
      std::fclose(file);
    if (replaces)
      std::remove(temporary.c_str());
    return false;
  }
}
