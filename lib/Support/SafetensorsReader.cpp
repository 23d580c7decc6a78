//===- SafetensorsReader.cpp - Reading safetensors files ------------------===//
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
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

using namespace fp8moe::support;

namespace {

/// The format's own limit on the header.
constexpr uint64_t maxHeaderBytes = 100'000'000;

[[noreturn]] void fail(const std::string &message) {
  throw std::runtime_error(message);
}

/// Maps the whole file for reading.
std::shared_ptr<const uint8_t> mapFile(const std::string &path,
                                       uint64_t &size) {
  // Opening a FIFO would otherwise wait for somebody to write to it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    fail(std::strerror(errno));
  std::shared_ptr<void> closeFd(nullptr, [fd](void *) { ::close(fd); });

  struct stat info;
  if (::fstat(fd, &info) != 0)
    fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    fail("not a regular file");
  size = info.st_size;
  if (size < 8)
    fail("has " + std::to_string(size) +
         " bytes, too few for the length of the header; the file is truncated "
         "or no safetensors file");
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED)
    fail(std::strerror(errno));
  return {static_cast<const uint8_t *>(address), [size](const uint8_t *start) {
            ::munmap(const_cast<uint8_t *>(start), size);
          }};
}

/// The header's text; `dataStart` becomes the position of the first data byte.
std::string_view readHeader(const uint8_t *file, uint64_t size,
                            uint64_t &dataStart) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | file[i];
  if (length > maxHeaderBytes)
    fail("the header's length is given as " + std::to_string(length) +
         " bytes, more than the format's limit of " +
         std::to_string(maxHeaderBytes) + "; no safetensors file");
  if (length > size - 8)
    fail("the header needs " + std::to_string(length) + " bytes, but only " +
         std::to_string(size - 8) +
         " follow its length; the file is truncated");
  dataStart = 8 + length;
  return {reinterpret_cast<const char *>(file) + 8, length};
}

const Json &member(const Json &object, const char *key) {
  auto found = object.find(key);
  if (found == object.end())
    fail("has no '" + std::string(key) + "'");
  return *found;
}

uint64_t asSize(const Json &value, const char *what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
    fail(std::string(what) + " must hold integers from 0 to 2^63-1, found " +
         quoteJson(value));
  return value.get<uint64_t>();
}

/// Checks one entry of the header against the size of the data.
SafetensorsTensor readTensor(const Json &entry, const uint8_t *data,
                             uint64_t dataBytes) {
  if (!entry.is_object())
    fail("expected an object, found " + quoteJson(entry));
  SafetensorsTensor tensor;
  const Json &dtype = member(entry, "dtype");
  if (dtype.is_string())
    tensor.dtype = findDataType(dtype.get_ref<const std::string &>());
  if (!tensor.dtype)
    fail("unknown dtype " + quoteJson(dtype) + "; known are " +
         listDataTypes());

  const Json &shape = member(entry, "shape");
  if (!shape.is_array())
    fail("'shape' must be an array, found " + quoteJson(shape));
  uint64_t bytes = tensor.dtype->bytes;
  for (const Json &extent : shape) {
    tensor.shape.push_back(int64_t(asSize(extent, "'shape'")));
    if (__builtin_mul_overflow(bytes, uint64_t(tensor.shape.back()), &bytes))
      fail("the size of shape " + quoteJson(shape) + " overflows 64 bits");
  }

  const Json &offsets = member(entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    fail("'data_offsets' must be [begin, end], found " + quoteJson(offsets));
  uint64_t begin = asSize(offsets[0], "'data_offsets'");
  uint64_t end = asSize(offsets[1], "'data_offsets'");
  if (begin > end)
    fail("'data_offsets' end before they begin: " + quoteJson(offsets));
  if (end > dataBytes)
    fail("its data ends at byte " + std::to_string(end) +
         ", but the file holds " + std::to_string(dataBytes) +
         " bytes of data; the file is truncated");
  if (end - begin != bytes)
    fail("'data_offsets' " + quoteJson(offsets) + " span " +
         std::to_string(end - begin) + " bytes, but " + tensor.dtype->name +
         " of shape " + quoteJson(shape) + " has " + std::to_string(bytes));
  tensor.data = data + begin;
  tensor.bytes = bytes;
  return tensor;
}

std::map<std::string, std::string> readMetadata(const Json &value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object())
    fail("'__metadata__' must be an object, found " + quoteJson(value));
  for (const auto &[key, text] : value.items()) {
    if (!text.is_string())
      fail("'__metadata__' must map to strings, but '" + key + "' is " +
           quoteJson(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// Sorts by position and checks that the tensors tile the data.
void checkTiling(std::vector<SafetensorsTensor> &tensors, const uint8_t *data,
                 uint64_t dataBytes) {
  // Tensors without bytes go before others that start at the same place.
  std::sort(tensors.begin(), tensors.end(), [](const auto &a, const auto &b) {
    return std::tie(a.data, a.bytes, a.name) <
           std::tie(b.data, b.bytes, b.name);
  });
  const uint8_t *next = data;
  for (const SafetensorsTensor &tensor : tensors) {
    const auto *start = static_cast<const uint8_t *>(tensor.data);
    if (start < next)
      fail("tensor '" + tensor.name + "' overlaps the one before it");
    if (start > next)
      fail("there are " + std::to_string(start - next) +
           " bytes of no tensor before '" + tensor.name + "'");
    next = start + tensor.bytes;
  }
  if (next != data + dataBytes)
    fail("there are " + std::to_string(data + dataBytes - next) +
         " bytes of no tensor at the end");
}

} // namespace

std::optional<SafetensorsFile> SafetensorsFile::open(const std::string &path,
                                                     std::string &error) try {
  SafetensorsFile file;
  uint64_t size = 0;
  file.mapping = mapFile(path, size);
  uint64_t dataStart = 0;
  std::string_view text = readHeader(file.mapping.get(), size, dataStart);

  std::string parseError;
  std::optional<Json> header = parseJson(text, parseError);
  if (!header)
    fail("the header is no valid JSON: " + parseError);
  if (!header->is_object())
    fail("the header must be a JSON object, found " + quoteJson(*header));

  const uint8_t *data = file.mapping.get() + dataStart;
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__") {
      file.notes = readMetadata(entry);
      continue;
    }
    try {
      file.contents.push_back(readTensor(entry, data, size - dataStart));
      file.contents.back().name = name;
    } catch (const std::exception &exception) {
      fail("tensor '" + name + "': " + exception.what());
    }
  }
  checkTiling(file.contents, data, size - dataStart);
  return file;
} catch (const std::exception &exception) {
  error = path + ": " + exception.what();
  return std::nullopt;
}

const SafetensorsTensor *SafetensorsFile::find(std::string_view name) const {
  for (const SafetensorsTensor &tensor : contents)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}
