//===- MatmulFamily.cpp - What families of matmul kernels share -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/MatmulFamily.h"

#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether what a matmul adds to may lie as its result does, whatever that is:
/// it is not an operand of the product, too.
static bool hasFreeAddend(MatmulOpInterface op) {
  Value addend = op.getAddend();
  return addend && addend != op.getA() && addend != op.getB();
}

/// Whether `tensor` is the result, or what is added to it, in any layout.
static bool isFreeResult(MatmulOpInterface op, Value tensor) {
  return tensor == op.getAddend() ? hasFreeAddend(op)
                                  : tensor == op.getResult() &&
                                        (!op.getAddend() || hasFreeAddend(op));
}

bool MatmulFamily::isAlignedPitch(int64_t size, Type elementType) {
  int64_t step = kAlignment / getElementBytes(elementType).value_or(1);
  return ShapedType::isStatic(size) && size % step == 0;
}

SmallVector<int64_t, 2> MatmulFamily::getContiguousDims(MatmulOpInterface op,
                                                        bool isFirst) {
  // Lambdas of C++17 capture no parts of a structured binding.
  OperandDims operand = OperandDims::get(op, isFirst);
  RankedTensorType type = operand.type;
  int64_t contracted = operand.contracted, kept = operand.kept;
  SmallVector<int64_t, 2> dims{contracted};
  if (!mayBeMNMajor(op, isFirst))
    return dims;
  // The innermost size of a dense tensor is a pitch, which kernels take in
  // whole 16 bytes: where that is not sure along the kept dimension and sure
  // along the contraction, a copy is better than a program that cannot run.
  auto isSure = [&](int64_t dim) {
    return isAlignedPitch(type.getDimSize(dim), type.getElementType());
  };
  if (isSure(kept) || (type.isDynamicDim(kept) && !isSure(contracted)))
    dims.push_back(kept);
  return dims;
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
  return KernelChoiceAttr::get(
      context, chooseCandidate(rankTiles(context, work, target)).tile);
}

Cost MatmulFamily::predict(const MatmulWork &work, TileAttrInterface tile,
                           const TargetInfo &target) const {
  for (const KernelCandidate &candidate :
       rankTiles(tile.getContext(), work, target))
    if (candidate.tile == tile)
      return candidate.cost;
  return Cost::infinite();
}

std::string MatmulFamily::explain(const MatmulWork &work,
                                  KernelChoiceAttr choice,
                                  const TargetInfo &target) const {
  return explainTile(work, choice.getFirst().getTile(), target, describeTile);
}

std::string MatmulFamily::explainTile(
    const MatmulWork &work, TileAttrInterface tile, const TargetInfo &target,
    function_ref<std::string(TileAttrInterface)> describe) const {
  SmallVector<KernelCandidate> candidates =
      rankTiles(tile.getContext(), work, target);
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

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Reports `what` where it is not contiguous along dimension `contiguous`,
/// whose `role` says why, or has another stride that is no multiple of
/// `alignment` bytes. `orElse` says what else would be contiguous, `wayOut`
/// what to do.
static LogicalResult verifyTensor(MatmulOpInterface op, StringRef what,
                                  RankedTensorType type, int64_t contiguous,
                                  StringRef role, StringRef orElse,
                                  StringRef wayOut, int64_t alignment,
                                  const TargetInfo &target) {
  StridedLayout layout = *StridedLayout::get(type);
  if (!layout.isContiguousAlong(contiguous) && type.getDimSize(contiguous) != 1)
    return op.emitOpError("on ")
           << target.chip << " expects " << what
           << " to be contiguous along the " << role << " dimension "
           << contiguous << orElse << ", found " << type << "; " << wayOut;
  int64_t bytes = getElementBytes(type.getElementType()).value_or(1);
  // In elements, as 64 bits need not hold the bytes of the largest strides.
  int64_t step = std::max<int64_t>(1, alignment / bytes);
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

LogicalResult fp8moe::verifyMatmulLayouts(MatmulOpInterface op,
                                          int64_t operandAlignment,
                                          int64_t resultAlignment,
                                          const TargetInfo &target) {
  for (bool isFirst : {true, false}) {
    auto [type, contracted, kept] = OperandDims::get(op, isFirst);
    bool isAlongKept = isMNMajor(op, isFirst);
    std::string orElse =
        mayBeMNMajor(op, isFirst)
            ? llvm::formatv(" or along dimension {0}", kept).str()
            : "";
    if (failed(verifyTensor(
            op, isFirst ? "the first operand" : "the second operand", type,
            isAlongKept ? kept : contracted,
            !isAlongKept ? "contracted"
            : isFirst    ? "first"
                         : "last",
            orElse, "run the layout passes, or fp8moe.relayout it first",
            operandAlignment, target)))
      return failure();
  }
  return verifyTensor(op, "the result", op.getType(),
                      op.getType().getRank() - 1, "last", /*orElse=*/"",
                      "fp8moe.relayout such a result instead", resultAlignment,
                      target);
}

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

static const MatmulFamily *findMatmulFamily(const MatmulWork &work,
                                            const TargetInfo &target) {
  return cast_or_null<MatmulFamily>(findKernelFamily(work, target));
}

namespace {
class MatmulProblem : public KernelProblem {
public:
  bool matches(Operation *op) const override {
    return isa<MatmulOpInterface>(op);
  }
  void visitWorks(Operation *op, ArrayRef<AssumedLayout>,
                  function_ref<void(const KernelWork &)> visit) const override {
    visit(getMatmulWork(cast<MatmulOpInterface>(op)));
  }
  /// No cost: a matmul takes as long in each layout that a family takes, so
  /// placement compares the traffic of its tensors only.
  std::optional<Cost> estimate(Operation *, ArrayRef<AssumedLayout>,
                               const TargetInfo &) const override {
    return std::nullopt;
  }
  /// An addend lies as the result does.
  bool takesTogether(Operation *op,
                     ArrayRef<AssumedLayout> layouts) const override {
    auto matmul = cast<MatmulOpInterface>(op);
    if (!hasFreeAddend(matmul))
      return true;
    return getAssumedLayout(matmul.getAddend(), layouts)
        ->isSameAs(*getAssumedLayout(matmul.getResult(), layouts),
                   matmul.getType().getShape());
  }
  /// The cost of the best one of several tiles.
  std::optional<Cost> predictChoice(Operation *op,
                                    const TargetInfo &target) const override {
    MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
    const MatmulFamily *family = findMatmulFamily(work, target);
    KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
    if (!family || !choice)
      return std::nullopt;
    Cost best = Cost::infinite();
    for (AlternativeAttr entry : choice.getEntries())
      best = std::min(best, family->predict(work, entry.getTile(), target));
    return best;
  }
  std::string explainChoice(Operation *op,
                            const TargetInfo &target) const override {
    MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
    const MatmulFamily *family = findMatmulFamily(work, target);
    KernelChoiceAttr choice = cast<TiledOpInterface>(op).getTilesAttr();
    return family && choice ? family->explain(work, choice, target) : "";
  }
  KernelChoiceAttr choose(Operation *op,
                          const TargetInfo &target) const override {
    MatmulWork work = getMatmulWork(cast<MatmulOpInterface>(op));
    return findMatmulFamily(work, target)
        ->choose(op->getContext(), work, target);
  }
  StringRef getVariant(Operation *op) const override {
    return hasBlockScales(cast<MatmulOpInterface>(op))
               ? " with scales of blocks"
               : "";
  }
  StringRef getSweepPrefix() const override { return "m"; }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelProblem, MatmulProblem)
