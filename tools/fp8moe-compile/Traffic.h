//===- Traffic.h - Bytes that a program moves -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_COMPILE_TRAFFIC_H
#define FP8MOE_TOOLS_COMPILE_TRAFFIC_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::fp8moe {

/// A number of bytes as a polynomial in the token count: entry i is the
/// coefficient of tokens^i. A dynamic extent counts as the token count.
class Bytes {
public:
  /// The bytes of a tensor; 0 for what is not a ranked tensor.
  static Bytes of(Type type);

  Bytes &operator+=(const Bytes &other);
  bool operator==(const Bytes &other) const {
    return coefficients == other.coefficients;
  }

  /// "6148 B/token + 532480 B".
  std::string describe() const;

  /// The value for so many tokens.
  double at(int64_t tokens) const;

private:
  llvm::SmallVector<int64_t, 2> coefficients;
};

/// What one operation reads and writes.
struct OpTraffic {
  std::string name;
  Location loc;
  Bytes bytes;
};

/// The operations of `func` that move bytes, in order. Views move none; each
/// operand counts once however often it is used by an operation.
std::vector<OpTraffic> getTraffic(func::FuncOp func);

} // namespace mlir::fp8moe

#endif // FP8MOE_TOOLS_COMPILE_TRAFFIC_H
