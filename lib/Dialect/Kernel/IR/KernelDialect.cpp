//===- KernelDialect.cpp - The kernel dialect -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/IR/Kernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe::kernel;

#include "fp8moe/Dialect/Kernel/IR/KernelDialect.cpp.inc"

#include "fp8moe/Dialect/Kernel/IR/KernelEnums.cpp.inc"

#define GET_OP_CLASSES
#include "fp8moe/Dialect/Kernel/IR/KernelOps.cpp.inc"

void KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "fp8moe/Dialect/Kernel/IR/KernelOps.cpp.inc"
      >();
}

LogicalResult
KernelDialect::verifyOperationAttribute(Operation *op,
                                        NamedAttribute attribute) {
  if (attribute.getName() != kResidentBlocksAttrName)
    return op->emitError("has the unknown attribute '")
           << attribute.getName().getValue() << "'; this dialect knows '"
           << kResidentBlocksAttrName << "'";
  auto blocks = dyn_cast<IntegerAttr>(attribute.getValue());
  if (!isa<gpu::GPUFuncOp>(op) || !blocks || !blocks.getType().isInteger(32) ||
      blocks.getInt() < 1)
    return op->emitError("has '")
           << kResidentBlocksAttrName << " = " << attribute.getValue()
           << "'; expected a positive i32 on a gpu.func";
  return success();
}

static LogicalResult verifyFP8(Operation *op, Type type) {
  if (isa<Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType,
          Float8E5M2FNUZType>(type))
    return success();
  return op->emitOpError("converts ")
         << type << "; expected f8E4M3FN, f8E5M2, f8E4M3FNUZ or f8E5M2FNUZ";
}

static constexpr unsigned kFP8PerWord = 4;

LogicalResult PackFP8Op::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.assign(adaptor.getValues().size() / kFP8PerWord,
               IntegerType::get(context, 32));
  return success();
}

LogicalResult PackFP8Op::verify() {
  size_t values = getValues().size(), scales = getScales().size();
  if (values == 0 || values % kFP8PerWord != 0)
    return emitOpError("packs ")
           << values << " values; expected a positive multiple of "
           << kFP8PerWord;
  if (scales != 0 && scales != values)
    return emitOpError("has ")
           << scales << " scales for " << values
           << " values; expected none or one for each value";
  if (scales == 0 && getProducts() != FP8Products::Any)
    return emitOpError("bounds products, but has no scales; add 'times', or "
                       "leave out 'products'");
  return verifyFP8(*this, getFp8Type());
}

LogicalResult UnpackFP8Op::verify() { return verifyFP8(*this, getFp8Type()); }

LogicalResult ExchangeOp::verify() {
  constexpr uint32_t largest = 32;
  uint32_t mask = getMask();
  if (llvm::isPowerOf2_32(mask) && mask <= largest)
    return success();
  return emitOpError("has mask ")
         << mask << "; expected a power of two from 1 to " << largest;
}
