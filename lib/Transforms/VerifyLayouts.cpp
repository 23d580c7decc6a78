//===- VerifyLayouts.cpp - Reject operations that could lose a layout -----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_VERIFYLAYOUTS
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct VerifyLayouts : public fp8moe::impl::VerifyLayoutsBase<VerifyLayouts> {
  void runOnOperation() override;
};
} // namespace

static bool touchesTensors(Operation *op) {
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  return llvm::any_of(op->getOperandTypes(), isTensor) ||
         llvm::any_of(op->getResultTypes(), isTensor);
}

static bool keepsLayouts(Operation *op) {
  // Canonicalization makes it of scf.if. With a tensor of conditions it works
  // on elements.
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return select.getCondition().getType().isInteger(1);
  return isa<FP8MoEDialect>(op->getDialect()) ||
         isa<func::CallOp, func::ReturnOp, scf::IfOp, scf::ForOp, scf::YieldOp,
             tensor::DimOp, tensor::ExtractOp>(op);
}

/// Checks that a cast keeps the layout, and so only changes which sizes are
/// static.
static LogicalResult verifyCast(tensor::CastOp cast) {
  auto source = dyn_cast<RankedTensorType>(cast.getSource().getType());
  auto result = dyn_cast<RankedTensorType>(cast.getType());
  if (source && result && source.getEncoding() == result.getEncoding())
    return success();
  return cast.emitOpError("changes the layout without moving bytes, from ")
         << cast.getSource().getType() << " to " << cast.getType()
         << "; use fp8moe.relayout";
}

/// Checks that a signed 64-bit integer counts the bytes of a tensor, as later
/// stages assume. Also rejects negative sizes: damaged bytecode can contain
/// them, as MLIR does not verify types that it reads from bytecode.
static LogicalResult verifySize(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  if (llvm::any_of(tensor.getShape(), [](int64_t size) {
        return size < 0 && !ShapedType::isDynamic(size);
      }))
    return op->emitOpError("has a tensor of a size below zero: ")
           << type << "; the bytecode that it was read from is damaged";
  if (!hasCountableBytes(tensor))
    return op->emitOpError("has a tensor of more bytes than 64 bits count: ")
           << type << "; no device holds it";
  return success();
}

static LogicalResult verifySizes(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(verifySize(op, type)))
      return failure();
  for (Region &region : op->getRegions())
    for (Type type : region.getArgumentTypes())
      if (failed(verifySize(op, type)))
        return failure();
  return success();
}

/// Returns advice on what to use instead of an operation that drops layouts.
static StringRef adviseInstead(Operation *op) {
  StringRef name = op->getName().getStringRef();
  StringRef instead =
      llvm::StringSwitch<StringRef>(name)
          .Case("linalg.transpose", "use fp8moe.transpose")
          .Cases({"tensor.reshape", "tensor.collapse_shape",
                  "tensor.expand_shape"},
                 "use fp8moe.reshape")
          .Cases({"linalg.copy", "bufferization.clone"},
                 "use fp8moe.contiguous or fp8moe.relayout")
          .Cases({"linalg.matmul", "linalg.batch_matmul"},
                 "use fp8moe.linear or fp8moe.grouped_matmul")
          .Cases({"arith.truncf", "arith.extf"},
                 "use fp8moe.quantize or fp8moe.dequantize")
          .Case("arith.constant", "take the tensor as an argument")
          .Default("");
  if (!instead.empty())
    return instead;
  return "fp8moe has no kernels for it: return its operands, compute it "
         "outside "
         "of the program, and take its results as arguments of another "
         "function";
}

static LogicalResult verifyOperation(Operation *op) {
  if (!op->getDialect())
    return op->emitOpError("is not registered, so nothing is known about the "
                           "layout of its tensors");
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return verifyCast(cast);
  if (keepsLayouts(op))
    return success();
  return op->emitOpError("works on tensors but does not keep their layouts; ")
         << adviseInstead(op);
}

void VerifyLayouts::runOnOperation() {
  bool ok = true;
  getOperation()->walk([&](Operation *op) {
    if (failed(verifySizes(op)) ||
        (touchesTensors(op) && failed(verifyOperation(op))))
      ok = false;
  });
  if (!ok)
    signalPassFailure();
}
