//===- TensorMapOp.cpp - Addresses and tensor maps ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Target/NVIDIA.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe::plan;

//===----------------------------------------------------------------------===//
// AlignedOp
//===----------------------------------------------------------------------===//

/// The alignment that the declaration of a buffer promises.
static int64_t getPromisedAlignment(Value buffer) {
  Operation *op = buffer.getDefiningOp();
  if (!op)
    return 1;
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<InputOp, OutputOp, WorkspaceOp>(
          [](auto declared) { return declared.getAlignment(); })
      .Default(int64_t(1));
}

LogicalResult AlignedOp::verify() {
  if (getAlignment() <= 0 || !llvm::isPowerOf2_64(getAlignment()))
    return emitOpError("asks for a multiple of ")
           << getAlignment() << " bytes; expected a power of two";
  return success();
}

OpFoldResult AlignedOp::fold(FoldAdaptor) {
  if (getPromisedAlignment(getBuffer()) < getAlignment())
    return {};
  return Builder(getContext()).getBoolAttr(true);
}

//===----------------------------------------------------------------------===//
// TensorMapOp
//===----------------------------------------------------------------------===//

// Limits of the hardware, from the description of cuTensorMapEncodeTiled in the
// CUDA driver's interface.
static constexpr int64_t kMaxRank = 5;
static constexpr int64_t kMaxBoxExtent = 256;
/// In bytes; the rows of a box are multiples of it, as addresses and strides
/// are.
static constexpr int64_t kGranularity =
    fp8moe::nvidia::kTensorMapAddressAlignment;

void TensorMapOp::build(OpBuilder &builder, OperationState &state, Value buffer,
                        Value offset, ValueRange sizes, ValueRange strides,
                        ArrayRef<int64_t> box, int64_t swizzle,
                        int64_t promotion) {
  build(builder, state, TensorMapType::get(builder.getContext()), buffer,
        offset, sizes, strides, builder.getDenseI64ArrayAttr(box),
        builder.getI64IntegerAttr(swizzle),
        promotion ? builder.getI64IntegerAttr(promotion) : IntegerAttr());
}

/// Checks the extents and the rows of the box.
static LogicalResult verifyBox(TensorMapOp op, int64_t elementBytes) {
  ArrayRef<int64_t> box = op.getBox();
  for (auto [dim, extent] : llvm::enumerate(box))
    if (extent < 1 || extent > kMaxBoxExtent)
      return op.emitOpError("has a box of ")
             << extent << " elements along dimension " << dim
             << "; expected 1 to " << kMaxBoxExtent;
  int64_t rowBytes = box.front() * elementBytes;
  if (rowBytes % kGranularity != 0)
    return op.emitOpError("has a box with rows of ")
           << rowBytes << " bytes; expected a multiple of " << kGranularity;
  int64_t swizzle = op.getSwizzle();
  if (swizzle && rowBytes > swizzle)
    return op.emitOpError("has a box with rows of ")
           << rowBytes << " bytes, more than the " << swizzle
           << " bytes of the swizzle; use a narrower box";
  return success();
}

LogicalResult TensorMapOp::verify() {
  auto type = cast<MemRefType>(getBuffer().getType());
  if (!getManifestDtype(type.getElementType()))
    return emitOpError("has elements of type ")
           << type.getElementType() << ", which a manifest has no name for";
  int64_t rank = getSizes().size();
  if (rank < 1 || rank > kMaxRank)
    return emitOpError("has ")
           << rank << " dimensions; expected 1 to " << kMaxRank;
  if (static_cast<int64_t>(getStrides().size()) != rank - 1)
    return emitOpError("has ")
           << getStrides().size() << " strides for " << rank
           << " dimensions; expected one for each but the innermost";
  if (static_cast<int64_t>(getBox().size()) != rank)
    return emitOpError("has a box of ")
           << getBox().size() << " dimensions for a tensor of " << rank;
  if (!llvm::is_contained({0, 32, 64, 128}, getSwizzle()))
    return emitOpError("has swizzle ")
           << getSwizzle() << "; expected 0, 32, 64 or 128 bytes";
  if (!llvm::is_contained({0, 64, 128, 256}, getPromotion().value_or(0)))
    return emitOpError("has promotion ")
           << *getPromotion() << "; expected 0, 64, 128 or 256 bytes";
  int64_t elementBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (auto [index, stride] : llvm::enumerate(getStrides())) {
    APInt known;
    // A product that wraps around has the same remainder; whether the bytes are
    // too many is seen when the map is encoded.
    if (matchPattern(stride, m_ConstantInt(&known)) &&
        known.getZExtValue() * elementBytes % kGranularity != 0)
      return emitOpError("has a stride of ")
             << known.getSExtValue() << " elements along dimension "
             << index + 1 << ", which is not a multiple of " << kGranularity
             << " bytes";
  }
  return verifyBox(*this, elementBytes);
}
