//===- LoopBuilder.h - Terse loops and index arithmetic ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_LOOPBUILDER_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_LOOPBUILDER_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::fp8moe {

/// Builds index arithmetic and `scf` loops at one location.
class LoopBuilder : public ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value index(int64_t value);
  Value index(OpFoldResult value);

  Value add(Value lhs, Value rhs);
  Value sub(Value lhs, Value rhs);
  Value mul(Value lhs, Value rhs);
  Value mul(Value lhs, int64_t rhs);
  Value div(Value lhs, int64_t rhs);
  Value ceilDiv(Value lhs, int64_t rhs);
  Value remainder(Value lhs, int64_t rhs);
  Value roundUp(Value lhs, int64_t rhs);
  Value min(Value lhs, Value rhs);
  Value max(Value lhs, Value rhs);

  Value constantF32(float value);
  Value constantF64(double value);
  Value constantI32(uint32_t value);
  /// Returns zero of any element type of the dialect. Types without a zero
  /// constant get one by a bitcast.
  Value zero(Type elementType);

  Value select(Value condition, Value then, Value otherwise);

  /// Creates a loop: for i in [lower, upper) { body(i) }
  void forEach(Value lower, Value upper, function_ref<void(Value)> body);

  /// Creates a loop with iteration arguments, which start as `inits`. `body`
  /// maps them to those of the next iteration. Returns the results of the last
  /// iteration.
  SmallVector<Value>
  forEach(Value lower, Value upper, ValueRange inits,
          function_ref<SmallVector<Value>(Value, ValueRange)> body);

  /// Creates one loop per dimension in `order`, from outermost to innermost,
  /// over [lowers, uppers) of that dimension. `body` gets one index per
  /// dimension, null for those that `order` leaves out.
  void nest(ArrayRef<int64_t> order, ArrayRef<Value> lowers,
            ArrayRef<Value> uppers, function_ref<void(ArrayRef<Value>)> body);
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOLOOPS_LOOPBUILDER_H
