//===- SizeMath.cpp - Models of the compiler and of the host plan ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/CheckedArithmetic.h"

#include <cassert>
#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

HostSize::HostSize(ImplicitLocOpBuilder &builder, OpFoldResult size)
    : builder(&builder), known(getConstantIntValue(size)) {
  if (!known)
    value = cast<Value>(size);
}

OpFoldResult HostSize::getSize(OpBuilder &builder) const {
  if (known)
    return builder.getIndexAttr(*known);
  return value;
}

Value HostSize::getValue(ImplicitLocOpBuilder &builder) const {
  return getValueOrCreateConstantIndexOp(builder, builder.getLoc(),
                                         getSize(builder));
}

HostSize HostSize::withBuilderOf(const HostSize &other) const {
  HostSize result = *this;
  if (!result.builder)
    result.builder = other.builder;
  return result;
}

template <typename Op>
HostSize HostSize::create(const HostSize &a, const HostSize &b,
                          std::optional<int64_t> folded) {
  ImplicitLocOpBuilder *builder = a.builder ? a.builder : b.builder;
  if (folded) {
    HostSize result(*folded);
    result.builder = builder;
    return result;
  }
  assert(builder && "numbers alone are no sizes of a plan");
  Value lhs = a.getValue(*builder), rhs = b.getValue(*builder);
  return HostSize(*builder, Op::create(*builder, lhs, rhs).getResult());
}

/// `fold(a, b)` if both are known.
template <typename Fold>
static std::optional<int64_t> foldKnown(const HostSize &a, const HostSize &b,
                                        Fold fold) {
  std::optional<int64_t> knownA = a.getKnown(), knownB = b.getKnown();
  if (!knownA || !knownB)
    return std::nullopt;
  return fold(*knownA, *knownB);
}

/// As above, for a division, if it has a result.
template <typename Fold>
static std::optional<int64_t> foldDivision(const HostSize &a, const HostSize &b,
                                           Fold fold) {
  return foldKnown(
      a, b, [&](int64_t size, int64_t divisor) -> std::optional<int64_t> {
        if (divisor == 0 ||
            (divisor == -1 && size == std::numeric_limits<int64_t>::min()))
          return std::nullopt;
        return fold(size, divisor);
      });
}

namespace mlir::fp8moe {

HostSize operator+(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::AddIOp>(
      a, b, foldKnown(a, b, llvm::checkedAdd<int64_t>));
}

HostSize operator-(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::SubIOp>(
      a, b, foldKnown(a, b, llvm::checkedSub<int64_t>));
}

HostSize operator*(const HostSize &a, const HostSize &b) {
  if (b.known == 1)
    return a.withBuilderOf(b);
  if (a.known == 1)
    return b.withBuilderOf(a);
  return HostSize::create<arith::MulIOp>(
      a, b, foldKnown(a, b, llvm::checkedMul<int64_t>));
}

HostSize operator/(const HostSize &a, const HostSize &b) {
  if (b.known == 1)
    return a.withBuilderOf(b);
  return HostSize::create<arith::DivSIOp>(
      a, b, foldDivision(a, b, std::divides<int64_t>()));
}

HostSize operator%(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::RemSIOp>(
      a, b, foldDivision(a, b, std::modulus<int64_t>()));
}

HostSize ceilDiv(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::CeilDivSIOp>(
      a, b, foldDivision(a, b, llvm::divideCeilSigned<int64_t, int64_t>));
}

HostSize minOf(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::MinSIOp>(
      a, b, foldKnown(a, b, [](int64_t x, int64_t y) {
        return std::optional(std::min(x, y));
      }));
}

HostSize maxOf(const HostSize &a, const HostSize &b) {
  return HostSize::create<arith::MaxSIOp>(
      a, b, foldKnown(a, b, [](int64_t x, int64_t y) {
        return std::optional(std::max(x, y));
      }));
}

static arith::CmpIPredicate getPredicate(Relation relation) {
  switch (relation) {
  case Relation::Equal:
    return arith::CmpIPredicate::eq;
  case Relation::Less:
    return arith::CmpIPredicate::slt;
  case Relation::AtMost:
    return arith::CmpIPredicate::sle;
  case Relation::More:
    return arith::CmpIPredicate::sgt;
  case Relation::AtLeast:
    return arith::CmpIPredicate::sge;
  }
  llvm_unreachable("unknown relation");
}

bool compare(Relation relation, int64_t a, int64_t b) {
  return arith::applyCmpPredicate(getPredicate(relation), APInt(64, a, true),
                                  APInt(64, b, true));
}

HostCondition compare(Relation relation, const HostSize &a, const HostSize &b) {
  ImplicitLocOpBuilder *builder = a.builder ? a.builder : b.builder;
  assert(builder && "numbers alone are no sizes of a plan");
  Value lhs = a.getValue(*builder), rhs = b.getValue(*builder);
  return {*builder, builder->createOrFold<arith::CmpIOp>(getPredicate(relation),
                                                         lhs, rhs)};
}

HostSize select(const HostCondition &condition, const HostSize &ifTrue,
                const HostSize &ifFalse) {
  if (std::optional<int64_t> known = getConstantIntValue(condition.condition))
    return *known ? ifTrue.withBuilderOf(ifFalse)
                  : ifFalse.withBuilderOf(ifTrue);
  ImplicitLocOpBuilder &builder = *condition.builder;
  Value lhs = ifTrue.getValue(builder), rhs = ifFalse.getValue(builder);
  return HostSize(
      builder, arith::SelectOp::create(builder, condition.condition, lhs, rhs)
                   .getResult());
}

} // namespace mlir::fp8moe
