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

/// Reports missing operands. Type inference needs this check, as it also runs
/// on operations that are being built and not verified yet.
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

// Parts of verifiers. `what` names the value in messages: "the input", "the
// scales". Each reports at `op` what was found, what was expected, and how to
// fix it.

LogicalResult verifyAxis(Operation *op, int64_t axis, RankedTensorType type);
/// Checks for one axis or two, with one data and one scale result each.
LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes,
                         RankedTensorType input);
LogicalResult verifyShape(Operation *op, const Twine &what,
                          RankedTensorType type, ArrayRef<int64_t> expected,
                          const Twine &why);
/// Checks that the result's type is `expected`, apart from the spelling of its
/// layout. `what` says why that type is expected.
LogicalResult verifyResultType(Operation *op, RankedTensorType expected,
                               const Twine &what);
/// Checks that the layout is strided, so that an operation can read the value.
LogicalResult verifyStrided(Operation *op, const Twine &what,
                            RankedTensorType type);
/// Checks that the layout is strided and its strides follow from the type, so
/// that an operation can write the value.
LogicalResult verifyWritable(Operation *op, const Twine &what,
                             RankedTensorType type);
/// Checks that the layout is strided, with packed groups.
LogicalResult verifyPacked(Operation *op, const Twine &what,
                           RankedTensorType type);
/// Checks that data or a result has the input's shape, packed groups and a
/// layout that can be written.
LogicalResult verifyElements(Operation *op, const Twine &what,
                             RankedTensorType type, RankedTensorType input);
LogicalResult verifyDenseRowMajor(Operation *op, const Twine &what,
                                  RankedTensorType type);
/// Checks that `offsets`, if not null, is dense and has at least one element.
LogicalResult verifyOffsets(Operation *op,
                            TypedValue<RankedTensorType> offsets);
/// Verifies the operands of an operation with slices along `axis`. Groups
/// partition that axis if there are offsets.
LogicalResult verifySlices(Operation *op, RankedTensorType input,
                           TypedValue<RankedTensorType> offsets, int64_t axis);

/// Verifies block scales along `axis` of a tensor of this shape. `offsets` must
/// be given exactly if the layout of the scales pads groups of rows.
LogicalResult verifyBlockScales(Operation *op, const Twine &what,
                                RankedTensorType scales,
                                ArrayRef<int64_t> shape,
                                TypedValue<RankedTensorType> offsets,
                                int64_t axis);
/// Returns the sizes of such block scales.
SmallVector<OpFoldResult> blockScaleSizes(SizeBuilder &size,
                                          SmallVector<OpFoldResult> shape,
                                          TypedValue<RankedTensorType> offsets,
                                          int64_t axis);

/// Reports the first field of a tile that is less than 1 or above the limits of
/// every chip.
LogicalResult verifyTileCounts(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<std::pair<StringRef, int64_t>> counts);

} // namespace mlir::fp8moe::detail

#endif // FP8MOE_LIB_DIALECT_FP8MOE_IR_OPUTILS_H
