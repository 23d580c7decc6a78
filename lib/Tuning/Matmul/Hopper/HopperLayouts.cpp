//===- HopperLayouts.cpp - Layouts of Hopper's grouped matmul -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/NVIDIA.h"
#include "fp8moe/Tuning/Matmul/Hopper/HopperTiles.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kAlignment = nvidia::kTensorMapAddressAlignment;

/// Checks that tensor memory copies can move tiles of a tensor, whose
/// `contiguous` dimension must be; `role` says why, `wayOut` what to do.
static LogicalResult verifyTensorMap(MatmulOpInterface op, StringRef what,
                                     RankedTensorType type, int64_t contiguous,
                                     StringRef role, StringRef wayOut,
                                     const TargetInfo &target) {
  StridedLayout layout = *StridedLayout::get(type);
  auto isSingle = [&](int64_t dim) { return type.getDimSize(dim) == 1; };
  if (!layout.isContiguousAlong(contiguous) && !isSingle(contiguous))
    return op.emitOpError("on ")
           << target.chip << " expects " << what
           << " to be contiguous along the " << role << " dimension "
           << contiguous << ", found " << type << "; " << wayOut;
  int64_t bytes = getElementBytes(type.getElementType()).value_or(1);
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t stride = layout.strides[dim];
    if (dim == contiguous || isSingle(dim) || ShapedType::isDynamic(stride) ||
        stride * bytes % kAlignment == 0)
      continue;
    int64_t step = kAlignment / bytes;
    return op.emitOpError("on ")
           << target.chip << " expects every stride of " << what
           << " but that of the " << role << " dimension to be a multiple of "
           << kAlignment << " bytes, found " << stride * bytes
           << " bytes along dimension " << dim << " of " << type
           << "; make the size of dimension " << contiguous << " a multiple of "
           << step << ", or give the layout strides that are, such as "
           << llvm::alignTo(stride, step) << " instead of " << stride;
  }
  return success();
}

LogicalResult fp8moe::verifyMatmulLayouts(MatmulOpInterface op,
                                          const TargetInfo &target) {
  auto verifyOperand = [&](StringRef what, RankedTensorType type, int64_t dim) {
    return verifyTensorMap(op, what, type, dim, "contracted",
                           "run the layout passes, or fp8moe.relayout it first",
                           target);
  };
  if (failed(verifyOperand("the first operand", op.getA().getType(),
                           op.getContractedDimA())) ||
      failed(verifyOperand("the second operand", op.getB().getType(),
                           op.getContractedDimB())))
    return failure();
  return verifyTensorMap(op, "the result", op.getType(),
                         op.getType().getRank() - 1, "last",
                         "fp8moe.relayout such a result instead", target);
}
