//===- LoopBuilder.cpp - Terse loops and index arithmetic -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value LoopBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(*this, value);
}
Value LoopBuilder::index(OpFoldResult value) {
  return getValueOrCreateConstantIndexOp(*this, getLoc(), value);
}

Value LoopBuilder::add(Value lhs, Value rhs) {
  return createOrFold<arith::AddIOp>(lhs, rhs);
}
Value LoopBuilder::sub(Value lhs, Value rhs) {
  return createOrFold<arith::SubIOp>(lhs, rhs);
}
Value LoopBuilder::mul(Value lhs, Value rhs) {
  return createOrFold<arith::MulIOp>(lhs, rhs);
}
Value LoopBuilder::mul(Value lhs, int64_t rhs) { return mul(lhs, index(rhs)); }
Value LoopBuilder::div(Value lhs, int64_t rhs) {
  return createOrFold<arith::DivUIOp>(lhs, index(rhs));
}
Value LoopBuilder::ceilDiv(Value lhs, int64_t rhs) {
  return div(add(lhs, index(rhs - 1)), rhs);
}
Value LoopBuilder::remainder(Value lhs, int64_t rhs) {
  return createOrFold<arith::RemUIOp>(lhs, index(rhs));
}
Value LoopBuilder::roundUp(Value lhs, int64_t rhs) {
  return mul(ceilDiv(lhs, rhs), rhs);
}
Value LoopBuilder::min(Value lhs, Value rhs) {
  return createOrFold<arith::MinSIOp>(lhs, rhs);
}
Value LoopBuilder::max(Value lhs, Value rhs) {
  return createOrFold<arith::MaxSIOp>(lhs, rhs);
}

Value LoopBuilder::constantF32(float value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}
Value LoopBuilder::constantF64(double value) {
  return arith::ConstantOp::create(*this, getF64FloatAttr(value));
}
Value LoopBuilder::constantI32(uint32_t value) {
  return arith::ConstantOp::create(
      *this, getI32IntegerAttr(static_cast<int32_t>(value)));
}
Value LoopBuilder::zero(Type elementType) {
  // Constants have no sign, which the conversion to LLVM takes from all types.
  if (auto integer = dyn_cast<IntegerType>(elementType);
      integer && !integer.isSignless()) {
    Value bits = zero(getIntegerType(integer.getWidth()));
    return UnrealizedConversionCastOp::create(*this, elementType, bits)
        .getResult(0);
  }
  if (!isa<Float8E8M0FNUType>(elementType))
    return arith::ConstantOp::create(*this, getZeroAttr(elementType));
  Value bits = arith::ConstantOp::create(*this, getI8IntegerAttr(0));
  return arith::BitcastOp::create(*this, elementType, bits);
}

Value LoopBuilder::select(Value condition, Value then, Value otherwise) {
  return createOrFold<arith::SelectOp>(condition, then, otherwise);
}

void LoopBuilder::forEach(Value lower, Value upper,
                          function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(*this, lower, upper, index(1));
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

SmallVector<Value>
LoopBuilder::forEach(Value lower, Value upper, ValueRange inits,
                     function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(*this, lower, upper, index(1), inits);
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  // Without inits the builder of the loop has made the terminator already.
  if (!inits.empty())
    scf::YieldOp::create(*this, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void LoopBuilder::nest(ArrayRef<int64_t> order, ArrayRef<Value> lowers,
                       ArrayRef<Value> uppers,
                       function_ref<void(ArrayRef<Value>)> body) {
  SmallVector<Value> indices(lowers.size());
  auto level = [&](auto &self, size_t depth) -> void {
    if (depth == order.size())
      return body(indices);
    const int64_t dim = order[depth];
    forEach(lowers[dim], uppers[dim], [&](Value i) {
      indices[dim] = i;
      self(self, depth + 1);
    });
  };
  level(level, 0);
}
