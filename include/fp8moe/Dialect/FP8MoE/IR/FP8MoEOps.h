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

/// Creates fp8moe.dynamic_quantize, or fp8moe.jagged_dynamic_quantize where
/// there are offsets.
SliceOpInterface createDynamicQuantize(OpBuilder &builder, Location loc,
                                       TypeRange data, TypeRange scales,
                                       Value input, Value offsets,
                                       ArrayRef<int64_t> axes,
                                       ScaleRounding rounding,
                                       KernelChoiceAttr tiles = {});

/// Whether the scales of a matmul are those of blocks along the contraction.
bool hasBlockScales(MatmulOpInterface op);
/// The sizes that scales of blocks of the first or second operand must have.
SmallVector<OpFoldResult> getBlockScaleSizes(MatmulOpInterface op, bool ofA,
                                             SizeBuilder size);

/// Whether the kernels of a tile compute their input.
bool computesInput(TileAttrInterface tile);

/// Whether the kernels of all operations that read the result compute it, as
/// their tiles say, for some sizes or for all. Each reader then launches the
/// kernel of `op` itself before its kernels that do not (`LowerQuantize.cpp`).
/// Nothing writes the operands of `op` meanwhile: an output may only overwrite
/// an input of which a matmul's addend is the only use.
bool isComputedByReaders(RowOpInterface op);

/// Reports a matmul that no lowering takes: one whose precision is undecided,
/// or decided and not applied.
LogicalResult requirePrecision(MatmulOpInterface op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEOPS_H
