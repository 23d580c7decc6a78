//===- PlanSignature.h - A function seen from its program -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host plan of a function is built by every lowering path in the same way:
// arguments become inputs, results become outputs, and the sizes of every
// tensor are arithmetic on the sizes of the inputs. This file is that common
// part.
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

/// A tensor of a program: the buffer that holds it, and where its elements lie.
/// A view shares the buffer of its source.
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
  /// Creates the program `name` just before `func`, with one input for each
  /// argument and one output for each result. Reports what cannot be a program:
  /// arguments that are not tensors, names used twice, results whose sizes are
  /// not a function of the inputs' sizes.
  static FailureOr<PlanSignature> create(func::FuncOp func, StringRef name);

  plan::ProgramOp getProgram() const { return program; }
  /// A builder at the end of the program.
  OpBuilder getBuilder();

  ArrayRef<BufferView> getInputs() const { return inputs; }
  ArrayRef<BufferView> getOutputs() const { return outputs; }

  /// Sizes of a tensor of the function; reports at `user` when they are not a
  /// function of the inputs' sizes.
  FailureOr<SmallVector<OpFoldResult>> getSizes(Value tensor, Operation *user);

private:
  LogicalResult addInputs(func::FuncOp func);
  LogicalResult addOutputs(func::FuncOp func);
  LogicalResult computeSizes(Operation &op);
  /// Computes sizes of scf results where all branches agree.
  void computeFlowSizes(Operation &op);
  FailureOr<OpFoldResult> getSize(Value tensor, int64_t dim, Operation *user);
  /// Requires what a dense or aligned layout promises and its type cannot show.
  void requireLayout(StringRef name, RankedTensorType type,
                     const BufferView &view);
  /// Requires of sizes what an operation promises and its types cannot show;
  /// reports sizes that are not a function of the inputs' sizes.
  LogicalResult requireSizes(Operation &op);
  LogicalResult requireEqualSizes(ResultSizesOpInterface op);
  LogicalResult requireBlockScales(
      Operation *op, TypedValue<RankedTensorType> scales,
      function_ref<SmallVector<OpFoldResult>(SizeBuilder)> getSizes);
  LogicalResult requireMatmul(MatmulOpInterface op);
  LogicalResult requireCast(tensor::CastOp op);
  LogicalResult requireReshape(ReshapeOp op);
  /// Requires that a loop changes no size from one iteration to the next.
  LogicalResult requireLoop(scf::YieldOp op);
  void require(arith::CmpIPredicate predicate, OpFoldResult a, OpFoldResult b,
               const Twine &message, Location loc);

  plan::ProgramOp program;
  SmallVector<BufferView> inputs, outputs;
  llvm::DenseMap<Value, SmallVector<OpFoldResult>> sizes;
};

/// The value of a size as an operand: a constant is materialised.
Value materializeSize(OpBuilder &builder, Location loc, OpFoldResult size);

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_PLANSIGNATURE_H
