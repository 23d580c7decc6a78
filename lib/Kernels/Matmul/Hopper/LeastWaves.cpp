//===- LeastWaves.cpp - Which of several matmul kernels runs --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of the tiles (lib/Kernels/Matmul) as a computation of the host, for
// what it can only know at run time.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/LeastWaves.h"

#include "Kernels/Matmul/Hopper/MatmulWaves.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class LeastWaves {
public:
  LeastWaves(OpBuilder &builder, Location loc,
             const GroupedMatmulSizes<OpFoldResult> &sizes,
             Value multiprocessors)
      : b(loc, builder), rows(b, sizes.rows), columns(b, sizes.columns),
        groups(b, sizes.groups), multiprocessors(b, multiprocessors) {}

  /// Twice the time of an alternative.
  Value createTime(const MatmulAlternative &alternative);
  Value compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return b.createOrFold<arith::CmpIOp>(predicate, lhs, rhs);
  }
  Value getLess(Value lhs, Value rhs) {
    return b.createOrFold<arith::MinSIOp>(lhs, rhs);
  }
  Value both(Value lhs, Value rhs) {
    return b.createOrFold<arith::AndIOp>(lhs, rhs);
  }

private:
  ImplicitLocOpBuilder b;
  HostSize rows, columns, groups, multiprocessors;
};
} // namespace

Value LeastWaves::createTime(const MatmulAlternative &alternative) {
  HostSize waves = countDoubledWaves(alternative.config, rows, columns, groups,
                                     multiprocessors);
  return (waves * alternative.wave).getValue(b);
}

SmallVector<Value> fp8moe::createLeastWaves(
    OpBuilder &builder, Location loc, ArrayRef<MatmulAlternative> alternatives,
    const GroupedMatmulSizes<OpFoldResult> &sizes, Value multiprocessors) {
  if (alternatives.size() == 1)
    return {Value()};
  LeastWaves choice(builder, loc, sizes, multiprocessors);
  SmallVector<Value> times =
      llvm::map_to_vector(alternatives, [&](const MatmulAlternative &entry) {
        return choice.createTime(entry);
      });
  // The first of the best: it beats all before, and ties with none of them.
  SmallVector<Value> conditions;
  for (size_t index : llvm::seq(times.size())) {
    Value time = times[index], condition;
    auto demand = [&](arith::CmpIPredicate predicate, ArrayRef<Value> others) {
      if (others.empty())
        return;
      Value least = others.front();
      for (Value other : others.drop_front())
        least = choice.getLess(least, other);
      Value holds = choice.compare(predicate, time, least);
      condition = condition ? choice.both(condition, holds) : holds;
    };
    demand(arith::CmpIPredicate::slt, ArrayRef(times).take_front(index));
    demand(arith::CmpIPredicate::sle, ArrayRef(times).drop_front(index + 1));
    conditions.push_back(condition);
  }
  return conditions;
}
