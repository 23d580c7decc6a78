//===- OpLowering.h - From tensor ops to loops ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_OPLOWERING_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_OPLOWERING_H

#include "TensorBuffer.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fp8moe {

/// The buffers of one operation while it is being lowered.
class OpLowering {
public:
  OpLowering(ResultSizesOpInterface op, ConversionPatternRewriter &rewriter)
      : b(op.getLoc(), rewriter), op(op), rewriter(rewriter) {}

  /// Finds the buffers of the tensor operands and creates those of the results.
  /// Reports failures at the operation.
  LogicalResult prepare();

  const TensorBuffer &getBuffer(Value tensor) const {
    return buffers.find(tensor)->second;
  }

  SmallVector<Value> getResultMemrefs() const;

  LoopBuilder b;

private:
  /// Returns the logical size of one dimension of an operand.
  FailureOr<Value> getSize(Value tensor, int64_t dim);

  ResultSizesOpInterface op;
  ConversionPatternRewriter &rewriter;
  llvm::SmallDenseMap<Value, TensorBuffer, 8> buffers;
};

/// Lowers operations of type OpTy with a function that creates loops.
template <typename OpTy> struct LowerToLoops : OpConversionPattern<OpTy> {
  using Lowering = void (*)(OpTy, OpLowering &);
  LowerToLoops(const TypeConverter &converter, MLIRContext *context,
               Lowering lower)
      : OpConversionPattern<OpTy>(converter, context), lower(lower) {}

  LogicalResult
  matchAndRewrite(OpTy op, typename OpTy::Adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    OpLowering lowering(cast<ResultSizesOpInterface>(op.getOperation()),
                        rewriter);
    if (failed(lowering.prepare()))
      return failure();
    lower(op, lowering);
    rewriter.replaceOp(op, lowering.getResultMemrefs());
    return success();
  }

  Lowering lower;
};

/// Adds a LowerToLoops pattern for each function.
template <typename... OpTys>
void addLowerings(const TypeConverter &converter, RewritePatternSet &patterns,
                  void (*...lower)(OpTys, OpLowering &)) {
  (patterns.add<LowerToLoops<OpTys>>(converter, patterns.getContext(), lower),
   ...);
}

/// Returns the stride of every dimension: the explicit strides of `layout`, or
/// dense ones.
SmallVector<Value> getStrides(LoopBuilder &b, const StridedLayout &layout,
                              ArrayRef<Value> sizes);

void populateViewPatterns(const TypeConverter &converter,
                          RewritePatternSet &patterns);
void populateRelayoutPatterns(const TypeConverter &converter,
                              RewritePatternSet &patterns);
void populateQuantizePatterns(const TypeConverter &converter,
                              RewritePatternSet &patterns);
void populateMXQuantizePatterns(const TypeConverter &converter,
                                RewritePatternSet &patterns);
void populateRowPatterns(const TypeConverter &converter,
                         RewritePatternSet &patterns);
void populateMatmulPatterns(const TypeConverter &converter,
                            RewritePatternSet &patterns);
void populateFunctionPatterns(const TypeConverter &converter,
                              RewritePatternSet &patterns);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_OPLOWERING_H
