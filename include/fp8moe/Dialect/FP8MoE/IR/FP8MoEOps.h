//===- FP8MoEOps.h - The operations -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_H
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEMatmulInterface.h.inc"

#define GET_OP_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h.inc"

namespace mlir::fp8moe {

/// Creates fp8moe.dynamic_quantize, or fp8moe.jagged_dynamic_quantize if
/// `offsets` is not null.
SliceOpInterface createDynamicQuantize(OpBuilder &builder, Location loc,
                                       TypeRange data, TypeRange scales,
                                       Value input, Value offsets,
                                       ArrayRef<int64_t> axes,
                                       ScaleRounding rounding,
                                       KernelChoiceAttr tiles = {});

/// Whether a matmul has block scales: one per block of elements along the
/// contraction.
bool hasBlockScales(MatmulOpInterface op);
/// Returns the sizes that the block scales of A (`ofA`) or B must have.
SmallVector<OpFoldResult> getBlockScaleSizes(MatmulOpInterface op, bool ofA,
                                             SizeBuilder size);

/// Whether a quantize kernel with this tile is fused with the row operation
/// that computes its input.
bool computesInput(TileAttrInterface tile);

/// Whether every reader of the result has a tile that computes the result in
/// its own kernel, for some sizes or for all. For the other sizes each reader
/// first launches the kernel of `op` (`LowerQuantize.cpp`). The operands of
/// `op` are still intact then: an output may only overwrite an input whose only
/// use is the addend of a matmul.
bool isComputedByReaders(RowOpInterface op);

/// Reports a matmul whose precision is undecided, or decided but not applied.
/// No lowering handles such a matmul.
LogicalResult requirePrecision(MatmulOpInterface op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_H
