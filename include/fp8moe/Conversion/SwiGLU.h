//===- SwiGLU.h - SwiGLU of numbers -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// SwiGLU and its gradient on f32 scalars, for loops and for kernels, which have
// different sigmoids. The labels in parentheses are those of
// docs/reference/semantics.md.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_SWIGLU_H
#define FP8MOE_CONVERSION_SWIGLU_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <utility>

namespace mlir::fp8moe {

/// (A3), where `sigmoid` is that of the gate (A2), and `weight` may be null.
inline Value createSwiGLU(ImplicitLocOpBuilder &b, Value gate, Value up,
                          Value sigmoid, Value weight) {
  Value silu = arith::MulFOp::create(b, gate, sigmoid);
  Value product = arith::MulFOp::create(b, silu, up);
  return weight ? arith::MulFOp::create(b, product, weight) : product;
}

/// (A4): the gradients of gate and up.
inline std::pair<Value, Value> createSwiGLUGradient(ImplicitLocOpBuilder &b,
                                                    Value gradient, Value gate,
                                                    Value up, Value sigmoid) {
  auto mul = [&](Value lhs, Value rhs) -> Value {
    return arith::MulFOp::create(b, lhs, rhs);
  };
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1.0f));
  Value slope = arith::AddFOp::create(
      b, mul(gate, arith::SubFOp::create(b, one, sigmoid)), one);
  return {mul(mul(mul(gradient, up), sigmoid), slope),
          mul(mul(gradient, gate), sigmoid)};
}

} // namespace mlir::fp8moe

#endif // FP8MOE_CONVERSION_SWIGLU_H
