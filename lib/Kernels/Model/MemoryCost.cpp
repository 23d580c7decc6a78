//===- MemoryCost.cpp - Predicted cost of moving tensors ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Neighbours along one dimension that a kernel touches at once: the tiles of
/// every schedule are at least this long, and 32 two-byte elements fill two
/// sectors.
static constexpr int64_t kTileExtent = 64;

static int64_t nominalSize(int64_t size) {
  return ShapedType::isDynamic(size) ? kNominalTokens : size;
}

static int64_t elementBytes(RankedTensorType type) {
  return getElementBytes(type.getElementType()).value_or(1);
}

int64_t fp8moe::estimateTensorBytes(RankedTensorType type) {
  uint64_t elements = 1;
  for (int64_t size : type.getShape())
    elements = llvm::SaturatingMultiply<uint64_t>(elements, nominalSize(size));
  return static_cast<int64_t>(
             std::min<uint64_t>(elements, kMostModelledElements)) *
         elementBytes(type);
}

int64_t fp8moe::estimateSectorBytes(RankedTensorType type,
                                    const StridedLayout &layout,
                                    const TensorAccess &access,
                                    const TargetInfo &target) {
  int64_t extent = 1;
  for (int64_t dim : access.walkedDims)
    if (layout.isContiguousAlong(dim))
      extent = std::max(
          extent, std::min(kTileExtent, nominalSize(type.getDimSize(dim))));
  int64_t contiguousBytes = std::max<int64_t>(extent * elementBytes(type), 1);
  int64_t touched = llvm::alignTo(contiguousBytes, target.sectorBytes);
  // Only what a contiguous extent leaves unused of its sectors is wasted.
  return static_cast<int64_t>(static_cast<double>(estimateTensorBytes(type)) *
                              touched / contiguousBytes);
}

Cost fp8moe::estimateBytes(int64_t bytes, const TargetInfo &target) {
  Cost cost;
  cost.time =
      static_cast<int64_t>(bytes * 1000.0 / *target.calibration->copyBandwidth);
  cost.bytes = bytes;
  return cost;
}

Cost fp8moe::estimateTraffic(int64_t bytes, const TargetInfo &target) {
  Cost cost = estimateBytes(bytes, target);
  cost.time += *target.calibration->launchTime;
  return cost;
}

/// Whether neighbours in one layout are neighbours in the other.
static bool keepRuns(const StridedLayout &from, const StridedLayout &to) {
  return llvm::any_of(llvm::seq<int64_t>(from.order.size()), [&](int64_t dim) {
    return from.isContiguousAlong(dim) && to.isContiguousAlong(dim);
  });
}

TensorAccess fp8moe::walkAll(RankedTensorType type) {
  TensorAccess access;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    access.walkedDims.push_back(dim);
  return access;
}

Cost fp8moe::estimateConversion(RankedTensorType input,
                                const StridedLayout &from,
                                RankedTensorType result,
                                const StridedLayout &to, int64_t otherBytes,
                                const TargetInfo &target) {
  TensorAccess access = walkAll(input);
  int64_t read = estimateSectorBytes(input, from, access, target);
  int64_t written = estimateSectorBytes(result, to, access, target);
  Cost cost = estimateTraffic(read + written + otherBytes, target);
  // The side of a transposition with smaller elements is the slow one.
  if (target.isGPU() && !keepRuns(from, to)) {
    bool isWritten = elementBytes(result) <= elementBytes(input);
    Cost side = estimateBytes(isWritten ? written : read, target);
    int64_t percent = elementBytes(isWritten ? result : input) == 1
                          ? *target.calibration->byteTransposePercent
                          : *target.calibration->transposePercent;
    cost.time += side.time * (percent - 100) / 100;
  }
  return cost;
}

Cost fp8moe::estimateCopy(RankedTensorType type, const StridedLayout &from,
                          const StridedLayout &to, const TargetInfo &target) {
  TensorAccess access = walkAll(type);
  Cost cost = estimateTraffic(estimateSectorBytes(type, from, access, target) +
                                  estimateSectorBytes(type, to, access, target),
                              target);
  cost.copies = 1;
  if (!target.isGPU())
    return cost;
  const Calibration &calibration = *target.calibration;
  if (!keepRuns(from, to))
    cost.time = cost.time *
                (elementBytes(type) == 1 ? *calibration.byteTransposePercent
                                         : *calibration.transposePercent) /
                100;
  cost.time += *calibration.copyDependency;
  return cost;
}

std::optional<StridedLayout>
fp8moe::getAssumedLayout(Value tensor, ArrayRef<AssumedLayout> layouts) {
  for (const AssumedLayout &entry : layouts)
    if (entry.tensor == tensor)
      return *entry.layout;
  return StridedLayout::get(cast<RankedTensorType>(tensor.getType()));
}

CopyWork CopyWork::get(Operation *op, ArrayRef<AssumedLayout> layouts) {
  CopyWork work;
  work.input = cast<RankedTensorType>(op->getOperand(0).getType());
  work.result = cast<RankedTensorType>(op->getResult(0).getType());
  work.from = getAssumedLayout(op->getOperand(0), layouts);
  work.to = getAssumedLayout(op->getResult(0), layouts);
  return work;
}

Cost fp8moe::estimateRelayout(const CopyWork &work, const TargetInfo &target) {
  const auto &[from, to] = std::tie(work.from, work.to);
  if (!from || !to) {
    Cost cost = estimateTraffic(estimateTensorBytes(work.input) +
                                    estimateTensorBytes(work.result),
                                target);
    cost.copies = 1;
    return cost;
  }
  if (from->groups == to->groups)
    return from->isSameAs(*to, work.result.getShape()) &&
                   from->align >= to->align
               ? Cost()
               : estimateCopy(work.result, *from, *to, target);
  // As a copy of the larger of the two.
  bool packs = static_cast<bool>(from->groups);
  RankedTensorType type = packs ? work.input : work.result;
  StridedLayout other =
      StridedLayout::getDense(type.getShape(), packs ? to->order : from->order);
  return packs ? estimateCopy(type, *from, other, target)
               : estimateCopy(type, other, *to, target);
}

Cost fp8moe::estimateRelayout(Operation *op, ArrayRef<AssumedLayout> layouts,
                              const TargetInfo &target) {
  return estimateRelayout(CopyWork::get(op, layouts), target);
}
