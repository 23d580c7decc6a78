//===- RandomInputs.cpp - Reproducible random tensors ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include "fp8moe/Support/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <unistd.h>

using namespace fp8moe;
using namespace fp8moe::run;
using llvm::ArrayRef;
using support::Json;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

template <typename T>
static void store(std::vector<uint8_t> &data, int64_t index, T value) {
  std::memcpy(data.data() + index * sizeof(T), &value, sizeof(T));
}

/// Rounds to nearest even. `value` is finite.
static uint16_t toBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static float drawFloat(uint64_t bits) {
  // The sum of four 12-bit numbers approximates a bell curve.
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<int32_t>((bits >> (12 * i)) & 0xFFF);
  float bell = static_cast<float>(sum - 2 * 0xFFF) / 4096.0f;
  // One value in 16 is an outlier, up to 2^7 times larger.
  uint64_t rest = bits >> 48;
  int exponent = (rest & 0xF) == 0 ? static_cast<int>((rest >> 4) & 0x7) : 0;
  return std::ldexp(bell, exponent);
}

static void fillGroupEnds(int64_t count, int64_t rows, std::mt19937_64 &engine,
                          std::vector<uint8_t> &data) {
  std::vector<int32_t> ends(count);
  for (int32_t &end : ends)
    end = static_cast<int32_t>(engine() % (static_cast<uint64_t>(rows) + 1));
  std::sort(ends.begin(), ends.end());
  for (int64_t i = 1; i < count; ++i)
    if (engine() % 4 == 0)
      ends[i] = ends[i - 1];
  std::memcpy(data.data(), ends.data(), data.size());
}

/// Fills a tensor; ends of groups divide `rows` rows.
static void fill(HostTensor &tensor, int64_t rows, std::mt19937_64 &engine) {
  int64_t count = tensor.numElements();
  std::vector<uint8_t> &data = tensor.data;
  data.assign(tensor.countBytes(), 0);
  switch (tensor.dtype->code) {
  case FP8MOE_DTYPE_I32:
    return fillGroupEnds(count, rows, engine, data);
  case FP8MOE_DTYPE_BF16:
    for (int64_t i = 0; i < count; ++i)
      store(data, i, toBF16(drawFloat(engine())));
    return;
  case FP8MOE_DTYPE_F32:
    for (int64_t i = 0; i < count; ++i)
      store(data, i, drawFloat(engine()));
    return;
  case FP8MOE_DTYPE_F8_E4M3:
  case FP8MOE_DTYPE_F8_E5M2:
  case FP8MOE_DTYPE_F8_E4M3FNUZ:
  case FP8MOE_DTYPE_F8_E5M2FNUZ:
    // Magnitudes below 0x78 are finite in every one of these types; 0x80 is NaN
    // in FNUZ, so the sign is only set on what is not zero.
    for (uint8_t &code : data) {
      uint64_t bits = engine();
      uint8_t magnitude = bits % 0x78;
      code = magnitude | (magnitude && (bits >> 63) ? 0x80 : 0);
    }
    return;
  case FP8MOE_DTYPE_F8_E8M0:
    // Scales from 2^-8 to 2^7.
    for (uint8_t &code : data)
      code = static_cast<uint8_t>(119 + engine() % 16);
    return;
  default:
    fail("--random makes no " + llvm::Twine(tensor.dtype->name) +
         " values, which input '" + tensor.name + "' needs; use --inputs");
  }
}

//===----------------------------------------------------------------------===//
// Padded groups
//===----------------------------------------------------------------------===//

namespace {
/// An input with padded groups (P1), according to the decisions in a manifest.
struct Padded {
  HostTensor &input, &ends;
  int64_t dim, pad;
  /// The largest number of rows of all groups, if known.
  std::optional<int64_t> rows;
};
} // namespace

static HostTensor *findInput(llvm::MutableArrayRef<HostTensor> inputs,
                             llvm::StringRef name) {
  auto *it = llvm::find_if(
      inputs, [&](const HostTensor &input) { return input.name == name; });
  return it == inputs.end() ? nullptr : it;
}

/// Reads the manifest of an artifact that the runtime has accepted.
static std::vector<Padded> findPadded(llvm::MutableArrayRef<HostTensor> inputs,
                                      const std::string &artifact,
                                      const std::string &program) {
  std::vector<Padded> padded;
  auto buffer = llvm::MemoryBuffer::getFile(artifact + "/manifest.json");
  std::string error = "cannot be read again";
  auto manifest = buffer
                      ? support::parseJson((*buffer)->getBuffer().str(), error)
                      : std::nullopt;
  if (!manifest)
    fail(artifact + "/manifest.json: " + error);
  auto add = [&](const Json &entry) {
    HostTensor *input = findInput(inputs, entry.at("input").get<std::string>());
    HostTensor *ends = findInput(inputs, entry.at("ends").get<std::string>());
    int64_t dim = entry.at("dim"), pad = entry.at("pad");
    std::optional<int64_t> rows;
    if (const Json &number = entry.at("rows"); !number.is_null())
      rows = number.get<int64_t>();
    if (input && ends && ends->dtype->code == FP8MOE_DTYPE_I32 && dim >= 0 &&
        dim < input->buffer.rank && pad > 0)
      padded.push_back({*input, *ends, dim, pad, rows});
  };
  // The runtime does not check decisions: those of another form are ignored.
  for (const Json &decision : manifest->value("decisions", Json::array()))
    try {
      if (decision.at("program") == program && decision.contains("padded"))
        llvm::for_each(decision.at("padded"), add);
    } catch (const Json::exception &) {
    }
  return padded;
}

/// The largest number of rows, at most `rows`, that fits into all inputs whose
/// groups end at `ends`.
static int64_t limitRows(ArrayRef<Padded> padded, const HostTensor &ends,
                         std::optional<int64_t> rows) {
  for (const Padded &each : padded) {
    if (&each.ends != &ends)
      continue;
    int64_t fitting = std::max<int64_t>(
        each.input.shape[each.dim] - ends.numElements() * (each.pad - 1), 0);
    fitting = std::min(fitting, each.rows.value_or(fitting));
    rows = std::min(fitting, rows.value_or(fitting));
  }
  return rows.value_or(0);
}

/// Zeroes the elements whose index along `dim` is from `begin` to `end`.
static void clear(HostTensor &tensor, int64_t dim, int64_t begin, int64_t end) {
  ArrayRef<int64_t> shape = tensor.shape;
  int64_t outer = llvm::product_of(shape.take_front(dim));
  int64_t inner =
      llvm::product_of(shape.drop_front(dim + 1), int64_t(tensor.dtype->bytes));
  int64_t extent = shape[dim];
  for (int64_t i = 0; i < outer; ++i)
    std::memset(tensor.data.data() + (i * extent + begin) * inner, 0,
                (end - begin) * inner);
}

/// Zeroes the elements of the padding (P2).
static void clearPadding(const Padded &padded) {
  HostTensor &input = padded.input;
  if (input.numElements() == 0)
    return;
  int64_t extent = input.shape[padded.dim], start = 0, previous = 0;
  for (int64_t i = 0; i < padded.ends.numElements() && start < extent; ++i) {
    int32_t end;
    std::memcpy(&end, padded.ends.data.data() + i * sizeof(end), sizeof(end));
    int64_t length = std::clamp<int64_t>(end - previous, 0, extent - start);
    int64_t next = std::min<int64_t>(
        start + static_cast<int64_t>(llvm::alignTo(length, padded.pad)),
        extent);
    clear(input, padded.dim, start + length, next);
    start = next;
    previous += length;
  }
  clear(input, padded.dim, start, extent);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

static void chooseShapes(llvm::MutableArrayRef<HostTensor> inputs,
                         ArrayRef<Padded> padded,
                         const RandomOptions &options) {
  auto isOpen = [&](const HostTensor &input) {
    return input.isRandom && !options.shapes.contains(input.name);
  };
  for (HostTensor &input : inputs) {
    if (isOpen(input) && options.tokens) {
      llvm::replace(input.shape, FP8MOE_DYNAMIC, *options.tokens);
    } else if (isOpen(input) &&
               llvm::is_contained(input.shape, FP8MOE_DYNAMIC)) {
      fail("input '" + input.name + "' is " + formatShape(input.shape) +
           ": give the extents with --tokens=N (for every '?') or --shape=" +
           input.name + "=AxB");
    } else if (input.isRandom && !isOpen(input)) {
      input.shape = options.shapes.lookup(input.name);
      checkInput(input);
    }
  }
  // `tokens` are the rows of all groups.
  for (const auto &[input, ends, dim, pad, rows] : padded) {
    if (!isOpen(input) || input.getBufferShape()[dim] != FP8MOE_DYNAMIC)
      continue;
    uint64_t extent = llvm::SaturatingMultiplyAdd<uint64_t>(
        ends.numElements(), pad - 1, *options.tokens);
    // Sizes that no memory holds are refused later.
    if (extent <= uint64_t(INT64_MAX / 2))
      input.shape[dim] = static_cast<int64_t>(llvm::alignTo(extent, pad));
  }
}

/// Each shape of the options is that of a random input.
static void checkShapes(llvm::MutableArrayRef<HostTensor> inputs,
                        const RandomOptions &options) {
  for (llvm::StringRef name : options.shapes.keys()) {
    HostTensor *input = findInput(inputs, name);
    if (!input)
      fail("--shape: the program has no input '" + name + "'");
    if (!input->isRandom)
      fail("--shape: input '" + name +
           "' is of the file of --inputs, which has its shape");
  }
}

static void checkMemory(ArrayRef<HostTensor> inputs) {
  uint64_t bytes = 0,
           machine = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const HostTensor &input : inputs)
    if (input.isRandom)
      bytes = llvm::SaturatingAdd(bytes, input.countBytes());
  if (bytes > machine)
    fail("the inputs need " + llvm::Twine(bytes) +
         " bytes, but this machine has " + llvm::Twine(machine) +
         " bytes of memory; give smaller --tokens or --shape");
}

void fp8moe::run::makeRandomInputs(llvm::MutableArrayRef<HostTensor> inputs,
                                   const std::string &artifact,
                                   const std::string &program,
                                   const RandomOptions &options) {
  std::vector<Padded> padded = findPadded(inputs, artifact, program);
  chooseShapes(inputs, padded, options);
  checkShapes(inputs, options);
  if (options.onlyShapes)
    return;
  checkMemory(inputs);

  std::optional<int64_t> rows = options.tokens;
  // Without --tokens the groups divide what the first free dimension holds.
  for (const HostTensor &input : inputs)
    for (auto [extent, wanted] : llvm::zip(input.shape, input.getBufferShape()))
      if (!rows && wanted == FP8MOE_DYNAMIC)
        rows = extent;
  std::mt19937_64 engine(options.seed);
  for (HostTensor &input : inputs)
    if (input.isRandom)
      fill(input, limitRows(padded, input, rows), engine);
  for (const Padded &each : padded)
    if (each.input.isRandom)
      clearPadding(each);
}
