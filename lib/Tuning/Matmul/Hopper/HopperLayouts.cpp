//===- HopperLayouts.cpp - Layouts of Hopper's grouped matmul -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Matmul/MatmulFamily.h"
#include "fp8moe/Target/NVIDIA.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kAlignment = nvidia::kTensorMapAddressAlignment;

/// Checks that TMA copies can move tiles of a tensor, whose
/// `contiguous` dimension must be; `role` says why, `orElse` what else would
/// do, and `wayOut` what to do.
static LogicalResult verifyTensorMap(MatmulOpInterface op, StringRef what,
                                     RankedTensorType type, int64_t contiguous,
                                     StringRef role, StringRef orElse,
                                     StringRef wayOut,
                                     const TargetInfo &target) {
  if (failed(verifyContiguous(op, what, type, contiguous, role, orElse, wayOut,
                              target)))
    return failure();
  return verifyStrides(op, what, type, contiguous, role, kAlignment, target);
}

bool fp8moe::isCertainPitch(int64_t size, Type elementType) {
  int64_t step = kAlignment / getElementBytes(elementType).value_or(1);
  return ShapedType::isStatic(size) && size % step == 0;
}

SmallVector<int64_t, 2> fp8moe::getWgmmaContiguousDims(MatmulOpInterface op,
                                                       bool isFirst) {
  // Lambdas of C++17 capture no parts of a structured binding.
  OperandDims operand = OperandDims::get(op, isFirst);
  RankedTensorType type = operand.type;
  int64_t contracted = operand.contracted, kept = operand.kept;
  SmallVector<int64_t, 2> dims{contracted};
  if (!mayBeMNMajor(op, isFirst))
    return dims;
  // The innermost size of a dense tensor is a pitch, which tensor maps take in
  // whole 16 bytes: where that is not sure along the kept dimension and sure
  // along the contraction, a copy is better than a program that cannot run.
  auto isSure = [&](int64_t dim) {
    return isCertainPitch(type.getDimSize(dim), type.getElementType());
  };
  if (isSure(kept) || (type.isDynamicDim(kept) && !isSure(contracted)))
    dims.push_back(kept);
  return dims;
}

LogicalResult fp8moe::verifyWgmmaLayouts(MatmulOpInterface op,
                                         const TargetInfo &target) {
  for (bool isFirst : {true, false}) {
    auto [type, contracted, kept] = OperandDims::get(op, isFirst);
    bool isAlongKept = isMNMajor(op, isFirst);
    std::string orElse =
        mayBeMNMajor(op, isFirst)
            ? llvm::formatv(" or along dimension {0}", kept).str()
            : "";
    if (failed(verifyTensorMap(
            op, isFirst ? "the first operand" : "the second operand", type,
            isAlongKept ? kept : contracted,
            !isAlongKept ? "contracted"
            : isFirst    ? "first"
                         : "last",
            orElse, "run the layout passes, or fp8moe.relayout it first",
            target)))
      return failure();
  }
  return verifyTensorMap(op, "the result", op.getType(),
                         op.getType().getRank() - 1, "last", "",
                         "fp8moe.relayout such a result instead", target);
}
