//===- Conditions.cpp - Logic of the host plan ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/Conditions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createBoth(OpBuilder &builder, Location loc, Value lhs,
                         Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return builder.createOrFold<arith::AndIOp>(loc, lhs, rhs);
}

Value fp8moe::createNot(OpBuilder &builder, Location loc, Value condition) {
  Value yes =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1);
  return builder.createOrFold<arith::XOrIOp>(loc, condition, yes);
}

bool fp8moe::isNever(Value condition) {
  return condition && matchPattern(condition, m_Zero());
}
