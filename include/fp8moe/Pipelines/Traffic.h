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

/// A number of bytes as a polynomial in the sizes that are only known at run
/// time. Its coefficients end at what 64 bits hold: the sum over a program may
/// be more than any tensor may have.
class Bytes {
public:
  /// The meaning of an unknown size. A size is `Other` when an operation has
  /// several of them, so that nothing says which of them the tokens are.
  enum class Size { Group, Token, Other };

  /// The bytes of a tensor whose dimension i, when it is dynamic, counts
  /// `sizes[i]`; 0 for what is not a ranked tensor.
  static Bytes of(Type type, llvm::ArrayRef<Size> sizes);

  Bytes &operator+=(const Bytes &other);

  /// "6148 B/token + 532480 B", "3 B x ? x ? + 4 B x groups x ?".
  std::string describe() const;

  /// The value for `tokens` and a nominal number of groups; std::nullopt where
  /// it depends on other sizes.
  std::optional<double> at(int64_t tokens) const;

private:
  /// Coefficients by the unknown sizes that they are multiplied with, sorted.
  std::map<std::vector<Size>, uint64_t> terms;
};

/// The bytes that one operation reads and writes. Nothing here belongs to a
/// context, as reports are printed when the module and its context are gone.
struct OpTraffic {
  std::string name;
  /// Where the operation is in its source, when that is known.
  std::optional<unsigned> line;
  Bytes bytes;
  /// It moves every byte only to change its place.
  bool isCopy;
};

/// The bytes of an operation, each tensor counted once. Rows that their readers
/// compute, for some sizes or for all, do not count: the readers read what the
/// rows are computed of.
Bytes getBytes(Operation *op);

/// The operations of `func` that move bytes, in order. Views move none; each
/// operand counts once however often it is used by an operation.
std::vector<OpTraffic> getTraffic(func::FuncOp func);

} // namespace mlir::fp8moe

#endif // FP8MOE_PIPELINES_TRAFFIC_H
