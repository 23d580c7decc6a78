//===- PrecisionPolicy.cpp - Rules that need no prediction ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrecisionPolicy.h"

#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;
using llvm::formatv;

/// N and K are multiples of this in FP8: rows are multiples of 16 bytes.
static constexpr int64_t kMultiple = 16;

WeightShape WeightShape::get(MatmulOpInterface op) {
  ArrayRef<int64_t> a = op.getA().getType().getShape();
  int64_t columns = op.getB().getType().getShape().back();
  switch (op.getPrecisionAttr().getUse()) {
  case MatmulUse::Forward: // [M, K] x [K, N]
    return {columns, a[1]};
  case MatmulUse::DGrad: // [M, N] x [N, K]
    return {a[1], columns};
  case MatmulUse::WGrad: // [N, M] x [M, K]
    return {a[0], columns};
  }
  llvm_unreachable("unknown use");
}

std::optional<std::string>
fp8moe::explainUnaligned(const WeightShape &weights) {
  auto explain = [](StringRef name, int64_t size) {
    return formatv("{0} = {1} is no multiple of {2}", name, size, kMultiple)
        .str();
  };
  if (!mayBeMultiple(weights.n, kMultiple))
    return explain("N", weights.n);
  if (!mayBeMultiple(weights.k, kMultiple))
    return explain("K", weights.k);
  return std::nullopt;
}

std::optional<std::string> fp8moe::explainTorchao(const WeightShape &weights,
                                                  PrecisionRecipe recipe) {
  if (std::optional<std::string> reason = explainUnaligned(weights))
    return reason;
  auto [n, k] = weights;
  if (recipe == PrecisionRecipe::Tensorwise) {
    if (k <= 4096 && n <= 1024)
      return formatv("torchao: K = {0} <= 4096 and N = {1} <= 1024", k, n);
    return std::nullopt;
  }
  assert(recipe == PrecisionRecipe::Rowwise && "a recipe without a rule");
  if (n <= 2048)
    return formatv("torchao: N = {0} <= 2048", n);
  if (k <= 1024)
    return formatv("torchao: K = {0} <= 1024", k);
  if (n <= 4096 && k <= 2048)
    return formatv("torchao: N = {0} <= 4096 and K = {1} <= 2048", n, k);
  return std::nullopt;
}
