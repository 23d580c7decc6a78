//===- FP8MoEToLoops.cpp - From tensors to memrefs and loops --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"
#include "fp8moe/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_CONVERTFP8MOETOLOOPS
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Tensors become the buffers that their layouts say.
class BufferTypeConverter : public TypeConverter {
public:
  BufferTypeConverter() {
    addConversion([](Type type) { return type; });
    addConversion([](TensorType type) -> std::optional<Type> {
      auto ranked = dyn_cast<RankedTensorType>(type);
      if (!ranked || isNeutralFp8Type(ranked.getElementType()))
        return Type();
      return getBufferType(ranked);
    });
    auto materialize = [](OpBuilder &builder, Type type, ValueRange inputs,
                          Location loc) -> Value {
      return UnrealizedConversionCastOp::create(builder, loc, type, inputs)
          .getResult(0);
    };
    addSourceMaterialization(materialize);
    addTargetMaterialization(materialize);
  }
};

bool hasTensor(TypeRange types) {
  return llvm::any_of(types, llvm::IsaPred<TensorType>);
}

/// Reports tensor types without a buffer.
LogicalResult verifyTypes(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto tensor = dyn_cast<TensorType>(type);
    if (!tensor)
      continue;
    if (!tensor.hasRank())
      return op->emitError("expects ranked tensors, found ") << type;
    if (isNeutralFp8Type(tensor.getElementType()))
      return op->emitError("has the target-neutral element type of ")
             << type
             << "; run -fp8moe-resolve-fp8-types before converting to loops";
  }
  return success();
}

/// Reports functions that cannot become destination-passing ones.
LogicalResult verifyFunction(func::FuncOp func) {
  if (!hasTensor(func.getArgumentTypes()) && !hasTensor(func.getResultTypes()))
    return success();
  if (func.isExternal())
    return func.emitError("takes or returns tensors and has no body; only "
                          "functions with a body can be converted to loops");
  if (!llvm::all_of(func.getResultTypes(), llvm::IsaPred<TensorType>))
    return func.emitError("expects all results to be tensors when one is, "
                          "found ")
           << func.getFunctionType();
  if (failed(verifyTypes(func, func.getArgumentTypes())))
    return failure();
  return verifyTypes(func, func.getResultTypes());
}

/// Reports what the conversion has no pattern for in words of the input.
LogicalResult verifyInput(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    if (auto func = dyn_cast<func::FuncOp>(op))
      return verifyFunction(func);
    if (isa<CallOpInterface>(op) &&
        (hasTensor(op->getOperandTypes()) || hasTensor(op->getResultTypes())))
      return op->emitError("passes tensors to another function; inline all "
                           "calls first (-inline), which recursion does not "
                           "allow");
    auto matmul = dyn_cast<MatmulOpInterface>(op);
    if (matmul && failed(requirePrecision(matmul)))
      return failure();
    // Scales may be for a type that no tensor has.
    Type fp8 = llvm::TypeSwitch<Operation *, Type>(op)
                   .Case<ScaleOp, JaggedScaleOp>(
                       [](auto scale) { return scale.getFp8Type(); })
                   .Default(Type());
    if (fp8 && isNeutralFp8Type(fp8))
      return op->emitError("computes scales for the target-neutral type ")
             << fp8
             << "; run -fp8moe-resolve-fp8-types before converting to loops";
    return verifyTypes(op, op->getResultTypes());
  });
  return failure(result.wasInterrupted());
}

struct ConvertFP8MoEToLoopsPass
    : public fp8moe::impl::ConvertFP8MoEToLoopsBase<ConvertFP8MoEToLoopsPass> {
  void runOnOperation() override {
    if (failed(verifyInput(getOperation())))
      return signalPassFailure();
    // The conversion leaves blocks as they are that nothing branches to.
    IRRewriter rewriter(&getContext());
    (void)eraseUnreachableBlocks(rewriter, getOperation()->getRegions());

    BufferTypeConverter converter;
    ConversionTarget target(getContext());
    target.addIllegalDialect<FP8MoEDialect, tensor::TensorDialect>();
    target.addDynamicallyLegalOp<func::FuncOp>([](func::FuncOp func) {
      return !hasTensor(func.getArgumentTypes()) &&
             !hasTensor(func.getResultTypes());
    });
    target.markUnknownOpDynamicallyLegal(
        [&](Operation *op) { return converter.isLegal(op); });

    RewritePatternSet patterns(&getContext());
    populateViewPatterns(converter, patterns);
    populateRelayoutPatterns(converter, patterns);
    populateQuantizePatterns(converter, patterns);
    populateMXQuantizePatterns(converter, patterns);
    populateRowPatterns(converter, patterns);
    populateMatmulPatterns(converter, patterns);
    populateFunctionPatterns(converter, patterns);
    populateBranchOpInterfaceTypeConversionPattern(patterns, converter);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
