//===- SwiGLU.h - SwiGLU of numbers -----------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// SwiGLU and its gradient on f32 scalars, shared by loops and kernels. These
// have different sigmoids, which they pass in. Labels in parentheses are rules
// of docs/reference/semantics.md.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_SWIGLU_H
#define FP8MOE_CONVERSION_SWIGLU_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <utility>

namespace mlir::fp8moe {

/// Creates swiglu (A3): (gate * sigmoid) * up, times `weight` unless null.
/// `sigmoid` is that of `gate` (A2).
inline Value createSwiGLU(ImplicitLocOpBuilder &b, Value gate, Value up,
                          Value sigmoid, Value weight) {
  Value silu = arith::MulFOp::create(b, gate, sigmoid);
  Value product = arith::MulFOp::create(b, silu, up);
  return weight ? arith::MulFOp::create(b, product, weight) : product;
}

/// Creates swiglu_gradient (A4). Returns the gradients of gate and up.
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
