//===- MatmulFamily.cpp - What families of matmul kernels share -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tuning/Matmul/MatmulFamily.h"

#include "fp8moe/Tuning/Matmul/ExchangedMatmul.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

bool fp8moe::hasFreeAddend(MatmulOpInterface op) {
  Value addend = op.getAddend();
  return addend && addend != op.getA() && addend != op.getB();
}

/// Whether `tensor` is the result, or what is added to it, in any layout.
static bool isFreeResult(MatmulOpInterface op, Value tensor) {
  return tensor == op.getAddend() ? hasFreeAddend(op)
                                  : tensor == op.getResult() &&
                                        (!op.getAddend() || hasFreeAddend(op));
}

SmallVector<int64_t, 2> MatmulFamily::getContiguousDims(MatmulOpInterface op,
                                                        bool isFirst) const {
  return {OperandDims::get(op, isFirst).contracted};
}

SmallVector<int64_t, 2>
MatmulFamily::getResultDims(MatmulOpInterface op,
                            const TargetInfo &target) const {
  RankedTensorType type = op.getType();
  int64_t last = type.getRank() - 1;
  MatmulWork exchanged = getMatmulKind(op);
  std::swap(exchanged.a, exchanged.b);
  // Columns are rows of the exchanged matmul.
  if (takesRowsOf(type.getDimSize(last - 1), type.getElementType()) &&
      explainNotExchangeable(op).empty() && supports(exchanged, target))
    return {last, last - 1};
  return {last};
}

std::optional<TensorAccess>
MatmulFamily::getWantedAccess(Operation *op, Value tensor,
                              const TargetInfo &target) const {
  auto matmul = dyn_cast<MatmulOpInterface>(op);
  if (!matmul || !hasKernel(matmul, target))
    return std::nullopt;
  SmallVector<int64_t, 2> contiguous;
  if (tensor == matmul.getA())
    contiguous = getContiguousDims(matmul, /*isFirst=*/true);
  else if (tensor == matmul.getB())
    contiguous = getContiguousDims(matmul, /*isFirst=*/false);
  else if (isFreeResult(matmul, tensor))
    contiguous = getResultDims(matmul, target);
  else
    return std::nullopt;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  return TensorAccess::free({rank - 2, rank - 1}, contiguous);
}

int64_t MatmulFamily::getWantedGroupPadding(Operation *op,
                                            const TargetInfo &target) const {
  auto matmul = dyn_cast<MatmulOpInterface>(op);
  bool needsMasks = matmul && !matmul.isMGrouped() &&
                    isFp8Type(matmul.getA().getType().getElementType()) &&
                    hasKernel(matmul, target);
  return needsMasks ? kGroupPadding : 0;
}

KernelChoiceAttr MatmulFamily::choose(MLIRContext *context,
                                      const MatmulWork &work,
                                      const TargetInfo &target) const {
  SmallVector<KernelCandidate> candidates;
  addCandidates(context, work, target, candidates);
  return KernelChoiceAttr::get(context, chooseCandidate(candidates).tile);
}

std::string MatmulFamily::explainTile(
    const MatmulWork &work, TileAttrInterface tile, const TargetInfo &target,
    function_ref<std::string(TileAttrInterface)> describe) const {
  SmallVector<KernelCandidate> candidates;
  addCandidates(tile.getContext(), work, target, candidates);
  std::string text;
  for (const KernelCandidate &candidate : candidates)
    if (candidate.tile == tile)
      text = candidate.reason;
  const KernelCandidate &best = chooseCandidate(candidates);
  if (best.tile == tile)
    return text;
  return text + llvm::formatv("{0}as given, the model prefers {1} at {2:f1} us",
                              text.empty() ? "" : "; ", describe(best.tile),
                              best.cost.time / 1e6)
                    .str();
}

LogicalResult fp8moe::verifyContiguous(MatmulOpInterface op, StringRef what,
                                       RankedTensorType type,
                                       int64_t contiguous, StringRef role,
                                       StringRef orElse, StringRef wayOut,
                                       const TargetInfo &target) {
  if (StridedLayout::get(type)->isContiguousAlong(contiguous) ||
      type.getDimSize(contiguous) == 1)
    return success();
  return op.emitOpError("on ")
         << target.chip << " expects " << what << " to be contiguous along the "
         << role << " dimension " << contiguous << orElse << ", found " << type
         << "; " << wayOut;
}

LogicalResult fp8moe::verifyStrides(MatmulOpInterface op, StringRef what,
                                    RankedTensorType type, int64_t contiguous,
                                    StringRef role, int64_t alignment,
                                    const TargetInfo &target) {
  StridedLayout layout = *StridedLayout::get(type);
  int64_t bytes = getElementBytes(type.getElementType()).value_or(1);
  // In elements, as 64 bits need not hold the bytes of the largest strides.
  int64_t step = alignment / bytes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t stride = layout.strides[dim];
    if (dim == contiguous || type.getDimSize(dim) == 1 ||
        ShapedType::isDynamic(stride) || stride % step == 0)
      continue;
    return op.emitOpError("on ")
           << target.chip << " expects every stride of " << what
           << " but that of the " << role << " dimension to be a multiple of "
           << alignment << " bytes, found " << stride << " elements of "
           << bytes << " bytes along dimension " << dim << " of " << type
           << "; make the size of dimension " << contiguous << " a multiple of "
           << step << ", or give the layout strides that are, such as "
           << llvm::alignTo(stride, step) << " instead of " << stride;
  }
  return success();
}
