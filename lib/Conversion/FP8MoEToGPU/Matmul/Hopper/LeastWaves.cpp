//===- LeastWaves.cpp - Which of several matmul kernels runs --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The model of the tiles (lib/Tuning/Matmul) as a computation of the
// host, for what it can only know at run time: tiles come in waves of one for
// each multiprocessor, and a wave costs the same however few tiles it has.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Matmul/Hopper/LeastWaves.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class LeastWaves {
public:
  LeastWaves(OpBuilder &builder, Location loc,
             const GroupedMatmulSizes<OpFoldResult> &sizes,
             Value multiprocessors)
      : b(loc, builder), size(builder, loc), sizes(sizes),
        multiprocessors(multiprocessors) {}

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
  Value get(OpFoldResult value) {
    return materializeSize(b, b.getLoc(), value);
  }
  Value createWaves(const HopperMatmulConfig &config);

  ImplicitLocOpBuilder b;
  SizeBuilder size;
  const GroupedMatmulSizes<OpFoldResult> &sizes;
  Value multiprocessors;
};
} // namespace

/// Twice the waves of an alternative: the sum of the two cases.
Value LeastWaves::createWaves(const HopperMatmulConfig &config) {
  OpFoldResult tileRows = size.constant(config.rows);
  Value whole = get(size.mul(size.ceilDiv(sizes.rows, config.rows), tileRows));
  Value columns = get(size.ceilDiv(sizes.columns, config.columns));
  Value perWave = b.createOrFold<arith::MulIOp>(multiprocessors, get(tileRows));
  auto count = [&](OpFoldResult ragged) -> Value {
    Value all = get(size.add(sizes.rows, ragged));
    Value covered = b.createOrFold<arith::MaxSIOp>(whole, all);
    Value tiles = b.createOrFold<arith::MulIOp>(covered, columns);
    return b.createOrFold<arith::CeilDivSIOp>(tiles, perWave);
  };
  int64_t groups = getStaticSize(sizes.groups);
  if (ShapedType::isDynamic(groups)) {
    // Half a tile for each group; how much that varies is not looked at.
    Value waves = count(size.mul(sizes.groups, size.constant(config.rows / 2)));
    return b.createOrFold<arith::AddIOp>(waves, waves);
  }
  RaggedRows ragged = RaggedRows::get(config.rows, groups);
  Value least = count(size.constant(ragged.least));
  Value most =
      ragged.least == ragged.most ? least : count(size.constant(ragged.most));
  return b.createOrFold<arith::AddIOp>(least, most);
}

Value LeastWaves::createTime(const MatmulAlternative &alternative) {
  return b.createOrFold<arith::MulIOp>(createWaves(alternative.config),
                                       get(size.constant(alternative.wave)));
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
