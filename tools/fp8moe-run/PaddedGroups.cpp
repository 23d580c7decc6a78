//===- PaddedGroups.cpp - Random inputs with padded groups ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedGroups.h"

#include "fp8moe/Support/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>

using namespace fp8moe;
using namespace fp8moe::run;

static std::string getText(const support::Json &object, const char *key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

static std::optional<int64_t> getInteger(const support::Json &object,
                                         const char *key) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer())
    return std::nullopt;
  return it->get<int64_t>();
}

PaddedGroups::PaddedGroups(const std::string &artifact,
                           llvm::StringRef program) {
  auto buffer = llvm::MemoryBuffer::getFile(artifact + "/manifest.json");
  std::string error;
  auto manifest = buffer
                      ? support::parseJson((*buffer)->getBuffer().str(), error)
                      : std::nullopt;
  if (!manifest)
    return;
  // The runtime does not check decisions: those of another form are ignored.
  for (const support::Json &decision : (*manifest)["decisions"]) {
    if (!decision.is_object() || getText(decision, "program") != program ||
        !decision.contains("padded"))
      continue;
    for (const support::Json &each : decision["padded"]) {
      Padded entry{getText(each, "input"), getText(each, "ends"),
                   getInteger(each, "dim").value_or(-1),
                   getInteger(each, "pad").value_or(0),
                   getInteger(each, "rows")};
      if (entry.dim >= 0 && entry.pad > 0)
        padded.push_back(std::move(entry));
    }
  }
}

std::optional<int64_t> PaddedGroups::getExtent(
    llvm::StringRef input, int64_t dim, int64_t tokens,
    llvm::function_ref<int64_t(llvm::StringRef)> numGroups) const {
  for (const Padded &each : padded)
    if (each.input == input && each.dim == dim) {
      uint64_t extent = llvm::SaturatingMultiplyAdd<uint64_t>(
          numGroups(each.ends), each.pad - 1, tokens);
      // Sizes that no memory holds are refused later.
      return extent > uint64_t(INT64_MAX / 2)
                 ? tokens
                 : static_cast<int64_t>(llvm::alignTo(extent, each.pad));
    }
  return std::nullopt;
}

static const HostTensor *findInput(llvm::ArrayRef<HostTensor> inputs,
                                   llvm::StringRef name) {
  const HostTensor *it = llvm::find_if(
      inputs, [&](const HostTensor &input) { return input.name == name; });
  return it == inputs.end() ? nullptr : it;
}

int64_t PaddedGroups::limitRows(const HostTensor &ends,
                                std::optional<int64_t> rows,
                                llvm::ArrayRef<HostTensor> inputs) const {
  for (const Padded &each : padded) {
    const HostTensor *input = findInput(inputs, each.input);
    if (each.ends != ends.name || !input || !each.isDimOf(*input))
      continue;
    int64_t fitting = std::max<int64_t>(
        input->shape[each.dim] - ends.numElements() * (each.pad - 1), 0);
    fitting = std::min(fitting, each.rows.value_or(fitting));
    rows = std::min(fitting, rows.value_or(fitting));
  }
  return rows.value_or(0);
}

/// Zeroes the elements whose index along `dim` is from `begin` to `end`.
static void clear(HostTensor &tensor, int64_t dim, int64_t begin, int64_t end) {
  int64_t inner = tensor.dtype->bytes, outer = 1;
  for (auto [i, extent] : llvm::enumerate(tensor.shape))
    (static_cast<int64_t>(i) < dim ? outer : inner) *=
        static_cast<int64_t>(i) == dim ? 1 : extent;
  int64_t extent = tensor.shape[dim];
  for (int64_t i = 0; i < outer; ++i)
    std::memset(tensor.data.data() + (i * extent + begin) * inner, 0,
                (end - begin) * inner);
}

void PaddedGroups::clearPadding(HostTensor &input,
                                llvm::ArrayRef<HostTensor> inputs) const {
  for (const Padded &each : padded) {
    const HostTensor *ends = findInput(inputs, each.ends);
    if (each.input != input.name || !ends || !each.isDimOf(input) ||
        input.numElements() == 0)
      continue;
    int64_t extent = input.shape[each.dim], start = 0, previous = 0;
    for (int64_t i = 0; i < ends->numElements() && start < extent; ++i) {
      int32_t end;
      std::memcpy(&end, ends->data.data() + i * sizeof(end), sizeof(end));
      int64_t length = std::clamp<int64_t>(end - previous, 0, extent - start);
      int64_t next = std::min<int64_t>(
          start + static_cast<int64_t>(llvm::alignTo(length, each.pad)),
          extent);
      clear(input, each.dim, start + length, next);
      start = next;
      previous += length;
    }
    clear(input, each.dim, start, extent);
    return;
  }
}
