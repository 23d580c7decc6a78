//===- SizeMath.h - Models of the compiler and of the host plan -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Expressions that the compiler predicts and the host decides are written once,
// as a template over the type of sizes: int64_t in the compiler, HostSize where
// the result becomes a part of the host plan.
//
// The form of an expression is that of the plan: `a + b` and `b + a` are
// different manifests.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_SIZEMATH_H
#define FP8MOE_DIALECT_FP8MOE_IR_SIZEMATH_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mlir::fp8moe {

/// How a size is compared with another one.
enum class Relation { Equal, Less, AtMost, More, AtLeast };

class HostCondition;

/// A size that is known, or computed by the host. Arithmetic folds what is
/// known, as SizeBuilder does, and creates operations on index otherwise.
/// Overflow and a division by zero are left to the host, which reports them.
class HostSize {
public:
  /// A number in an expression with a size that knows where operations go.
  HostSize(int64_t number) : known(number) {}
  /// `builder` must outlive all that is computed from this size.
  HostSize(ImplicitLocOpBuilder &builder, OpFoldResult size);

  /// The number, if it is known.
  std::optional<int64_t> getKnown() const { return known; }
  /// An attribute for a number.
  OpFoldResult getSize(OpBuilder &builder) const;
  /// An index.
  Value getValue(ImplicitLocOpBuilder &builder) const;

  friend HostSize operator+(const HostSize &a, const HostSize &b);
  friend HostSize operator-(const HostSize &a, const HostSize &b);
  friend HostSize operator*(const HostSize &a, const HostSize &b);
  friend HostSize operator/(const HostSize &a, const HostSize &b);
  friend HostSize operator%(const HostSize &a, const HostSize &b);
  friend HostSize ceilDiv(const HostSize &a, const HostSize &b);
  friend HostSize minOf(const HostSize &a, const HostSize &b);
  friend HostSize maxOf(const HostSize &a, const HostSize &b);
  friend HostCondition compare(Relation relation, const HostSize &a,
                               const HostSize &b);
  /// One of the two sizes if the condition is known.
  friend HostSize select(const HostCondition &condition, const HostSize &ifTrue,
                         const HostSize &ifFalse);

private:
  template <typename Op>
  static HostSize create(const HostSize &a, const HostSize &b,
                         std::optional<int64_t> folded);
  /// This size with the builder of `other` if it has none itself.
  HostSize withBuilderOf(const HostSize &other) const;

  ImplicitLocOpBuilder *builder = nullptr;
  std::optional<int64_t> known;
  Value value;
};

/// Whether a comparison of such sizes holds.
class HostCondition {
public:
  HostCondition(ImplicitLocOpBuilder &builder, Value condition)
      : builder(&builder), condition(condition) {}

  /// An i1, a constant if the result is known.
  Value getValue() const { return condition; }

  friend HostSize select(const HostCondition &condition, const HostSize &ifTrue,
                         const HostSize &ifFalse);

private:
  ImplicitLocOpBuilder *builder;
  Value condition;
};

/// Divisors are positive, as in the host plan.
inline int64_t ceilDiv(int64_t a, int64_t b) {
  return llvm::divideCeilSigned(a, b);
}
inline int64_t minOf(int64_t a, int64_t b) { return std::min(a, b); }
inline int64_t maxOf(int64_t a, int64_t b) { return std::max(a, b); }
bool compare(Relation relation, int64_t a, int64_t b);
inline int64_t select(bool condition, int64_t ifTrue, int64_t ifFalse) {
  return condition ? ifTrue : ifFalse;
}

/// The least multiple of `step` that is not less.
inline int64_t alignTo(int64_t size, int64_t step) {
  return ceilDiv(size, step) * step;
}
inline HostSize alignTo(const HostSize &size, const HostSize &step) {
  return ceilDiv(size, step) * step;
}

/// The number, if it is known when the program is compiled.
inline std::optional<int64_t> getKnown(int64_t size) { return size; }
inline std::optional<int64_t> getKnown(const HostSize &size) {
  return size.getKnown();
}

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_SIZEMATH_H
