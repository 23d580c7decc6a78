//===- SizeMath.h - Models of the compiler and of the host plan -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A size expression that both the compiler (for predictions) and the host (at
// run time) evaluate is written once, as a template over the type of sizes.
// That type is int64_t in the compiler, and HostSize where the result becomes
// part of the host plan.
//
// The order of operands is kept in the plan: `a + b` and `b + a` give different
// manifests.
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

/// A size that is a constant or an index value computed by the host. Arithmetic
/// folds constants, as SizeBuilder does, and otherwise creates operations on
/// index. Overflow and division by zero are not folded: the host reports them.
class HostSize {
public:
  /// Creates a constant. Another size in the same expression provides the
  /// builder.
  HostSize(int64_t number) : known(number) {}
  /// `builder` must outlive every size that is computed from this one.
  HostSize(ImplicitLocOpBuilder &builder, OpFoldResult size);

  /// The number, if it is known.
  std::optional<int64_t> getKnown() const { return known; }
  /// Returns an index attribute for a constant, else the value.
  OpFoldResult getSize(OpBuilder &builder) const;
  /// Returns an index value; creates a constant operation if needed.
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
  /// Folds to one of the two sizes if the condition is a constant.
  friend HostSize select(const HostCondition &condition, const HostSize &ifTrue,
                         const HostSize &ifFalse);

private:
  template <typename Op>
  static HostSize create(const HostSize &a, const HostSize &b,
                         std::optional<int64_t> folded);
  /// Returns this size, with the builder of `other` if this one has none.
  HostSize withBuilderOf(const HostSize &other) const;

  ImplicitLocOpBuilder *builder = nullptr;
  std::optional<int64_t> known;
  Value value;
};

/// The result of a comparison of HostSizes.
class HostCondition {
public:
  HostCondition(ImplicitLocOpBuilder &builder, Value condition)
      : builder(&builder), condition(condition) {}

  /// Returns an i1, which is a constant if the result is known.
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

/// Rounds `size` up to a multiple of `step`.
inline int64_t alignTo(int64_t size, int64_t step) {
  return ceilDiv(size, step) * step;
}
inline HostSize alignTo(const HostSize &size, const HostSize &step) {
  return ceilDiv(size, step) * step;
}

/// Returns the size, if it is known at compile time.
inline std::optional<int64_t> getKnown(int64_t size) { return size; }
inline std::optional<int64_t> getKnown(const HostSize &size) {
  return size.getKnown();
}

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_SIZEMATH_H
