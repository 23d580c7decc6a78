//===- PlanSignature.h - A function seen from its program -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of a function's host plan that all lowering paths have in common.
// Arguments become inputs, results become outputs, and sizes of tensors are
// computed from the inputs' sizes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_PLANSIGNATURE_H
#define FP8MOE_CONVERSION_PLANSIGNATURE_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fp8moe {

/// A tensor of a program: its buffer, and where its elements lie there. A view
/// shares the buffer of its source.
struct BufferView {
  TypedValue<MemRefType> buffer;
  /// Logical sizes, one per dimension of the tensor.
  SmallVector<OpFoldResult> sizes;
  /// Strides in elements; empty for blocked layouts.
  SmallVector<OpFoldResult> strides;
};

/// The program of one public function: declarations of its buffers, and the
/// sizes of the tensors in its body.
class PlanSignature {
public:
  /// Creates the program `name` just before `func`, with one input per argument
  /// and one output per result. Reports arguments that are not tensors,
  /// duplicate names, and results whose sizes do not follow from the inputs'
  /// sizes.
  static FailureOr<PlanSignature> create(func::FuncOp func, StringRef name);

  plan::ProgramOp getProgram() const { return program; }
  /// A builder at the end of the program.
  OpBuilder getBuilder();

  ArrayRef<BufferView> getInputs() const { return inputs; }
  ArrayRef<BufferView> getOutputs() const { return outputs; }

  /// Returns the sizes of a tensor of the function. Reports at `user` if they
  /// do not follow from the inputs' sizes.
  FailureOr<SmallVector<OpFoldResult>> getSizes(Value tensor, Operation *user);

private:
  LogicalResult addInputs(func::FuncOp func);
  LogicalResult addOutputs(func::FuncOp func);
  LogicalResult computeSizes(Operation &op);
  /// Computes the sizes of scf results, if all branches agree.
  void computeFlowSizes(Operation &op);
  FailureOr<OpFoldResult> getSize(Value tensor, int64_t dim, Operation *user);
  /// Adds run-time checks of the strides and alignment that a layout promises
  /// and the buffer's type does not state.
  void requireLayout(StringRef name, RankedTensorType type,
                     const BufferView &view);
  /// Adds run-time checks of sizes that an operation promises and its types do
  /// not state. Reports sizes that do not follow from the inputs' sizes.
  LogicalResult requireSizes(Operation &op);
  LogicalResult requireEqualSizes(ResultSizesOpInterface op);
  LogicalResult requireBlockScales(
      Operation *op, TypedValue<RankedTensorType> scales,
      function_ref<SmallVector<OpFoldResult>(SizeBuilder)> getSizes);
  LogicalResult requireMatmul(MatmulOpInterface op);
  LogicalResult requireCast(tensor::CastOp op);
  LogicalResult requireReshape(ReshapeOp op);
  /// Checks that a loop changes no size of a carried tensor between iterations.
  LogicalResult requireLoop(scf::YieldOp op);
  void require(arith::CmpIPredicate predicate, OpFoldResult a, OpFoldResult b,
               const Twine &message, Location loc);

  plan::ProgramOp program;
  SmallVector<BufferView> inputs, outputs;
  llvm::DenseMap<Value, SmallVector<OpFoldResult>> sizes;
};

/// Returns a size as a value; creates a constant if needed.
Value materializeSize(OpBuilder &builder, Location loc, OpFoldResult size);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_PLANSIGNATURE_H
