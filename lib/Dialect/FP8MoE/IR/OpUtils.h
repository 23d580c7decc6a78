//===- OpUtils.h - Checks and sizes shared by the operations ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_DIALECT_FP8MOE_IR_OPUTILS_H
#define FP8MOE_LIB_DIALECT_FP8MOE_IR_OPUTILS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"

namespace mlir::fp8moe::detail {

/// "[?, 2048]".
std::string formatShape(ArrayRef<int64_t> shape);

/// "2048" or "?".
std::string formatSize(int64_t size);

/// Reports that operands are missing. Types are also inferred for operations
/// that are being built, which nobody has verified yet.
template <typename Adaptor>
LogicalResult requireOperands(Adaptor adaptor, size_t count,
                              std::optional<Location> loc) {
  size_t found = adaptor.getOperands().size();
  if (found == count)
    return success();
  return emitOptionalError(loc, "expects ", count, " operands, found ", found);
}

/// As above, for an attribute.
inline LogicalResult requireAttribute(Attribute attribute, StringRef name,
                                      std::optional<Location> loc) {
  if (attribute)
    return success();
  return emitOptionalError(loc, "requires attribute '", name, "'");
}

// Verifier parts. `what` names the value for people: "the input", "the scales".
// Each reports at `op` and says what was found, expected, and what to do.

LogicalResult verifyAxis(Operation *op, int64_t axis, RankedTensorType type);
/// One axis or two, with data and scales for each.
LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes,
                         RankedTensorType input);
LogicalResult verifyShape(Operation *op, const Twine &what,
                          RankedTensorType type, ArrayRef<int64_t> expected,
                          const Twine &why);
/// The type of the result is `expected`, but for how its layout is spelled.
/// `what` says why.
LogicalResult verifyResultType(Operation *op, RankedTensorType expected,
                               const Twine &what);
/// The layout is strided: a value that an operation can read.
LogicalResult verifyStrided(Operation *op, const Twine &what,
                            RankedTensorType type);
/// Strided, with strides that follow from the type: a value that can be
/// written.
LogicalResult verifyWritable(Operation *op, const Twine &what,
                             RankedTensorType type);
/// Strided, with packed groups.
LogicalResult verifyPacked(Operation *op, const Twine &what,
                           RankedTensorType type);
/// Data or a result of the input's shape.
LogicalResult verifyElements(Operation *op, const Twine &what,
                             RankedTensorType type, RankedTensorType input);
LogicalResult verifyDenseRowMajor(Operation *op, const Twine &what,
                                  RankedTensorType type);
/// Offsets, when present, are dense; `E` of them.
LogicalResult verifyOffsets(Operation *op,
                            TypedValue<RankedTensorType> offsets);
/// Verifies the operands of an operation with slices along `axis`, which groups
/// cut when there are offsets.
LogicalResult verifySlices(Operation *op, RankedTensorType input,
                           TypedValue<RankedTensorType> offsets, int64_t axis);

/// The scale bytes of blocks along `axis` of a tensor of this shape; groups of
/// its rows are given exactly when the layout of the scales pads them.
LogicalResult verifyBlockScales(Operation *op, const Twine &what,
                                RankedTensorType scales,
                                ArrayRef<int64_t> shape,
                                TypedValue<RankedTensorType> offsets,
                                int64_t axis);
/// Their sizes.
SmallVector<OpFoldResult> blockScaleSizes(SizeBuilder &size,
                                          SmallVector<OpFoldResult> shape,
                                          TypedValue<RankedTensorType> offsets,
                                          int64_t axis);

/// Reports the first field of a tile that is less than 1, or more than a block
/// of any chip has of anything.
LogicalResult verifyTileCounts(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<std::pair<StringRef, int64_t>> counts);

} // namespace mlir::fp8moe::detail

#endif // FP8MOE_LIB_DIALECT_FP8MOE_IR_OPUTILS_H
