//===- Traffic.h - Bytes that a program moves -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_PIPELINES_TRAFFIC_H
#define FP8MOE_PIPELINES_TRAFFIC_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir::fp8moe {

/// A number of bytes, as a polynomial in the sizes that are only known at run
/// time. Coefficients saturate at 64 bits, as the sum over a program may exceed
/// the size of any tensor.
class Bytes {
public:
  /// The meaning of an unknown size. An operation with several unknown sizes
  /// besides groups has `Other` for each of them, as none is known to be the
  /// tokens.
  enum class Size { Group, Token, Other };

  /// Returns the bytes of a tensor. `sizes[i]` is the meaning of dimension i
  /// where that is dynamic. Types other than ranked tensors have 0 bytes.
  static Bytes of(Type type, llvm::ArrayRef<Size> sizes);

  Bytes &operator+=(const Bytes &other);

  /// Returns text such as "6148 B/token + 532480 B" or "3 B x ? x ? + 4 B x
  /// groups x ?".
  std::string describe() const;

  /// Returns the value for `tokens` and a nominal number of groups. Returns
  /// std::nullopt if the value depends on `Size::Other`.
  std::optional<double> at(int64_t tokens) const;

private:
  /// Maps each product of unknown sizes, sorted, to its coefficient.
  std::map<std::vector<Size>, uint64_t> terms;
};

/// The bytes that one operation reads and writes. Owns all of its data, as
/// reports are printed when the module and its context are gone.
struct OpTraffic {
  std::string name;
  /// The operation's line in the source, if known.
  std::optional<unsigned> line;
  Bytes bytes;
  /// Whether the operation is a copy between layouts.
  bool isCopy;
};

/// Returns the bytes of an operation, each tensor counted once. The result of a
/// row operation that its readers compute in their own kernels does not count.
/// Such readers count the operands of the row operation instead.
Bytes getBytes(Operation *op);

/// Returns the operations of `func` that move bytes, in order, without views.
/// An operand that an operation uses several times counts once for it.
std::vector<OpTraffic> getTraffic(func::FuncOp func);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_TRAFFIC_H
