//===- DividedRows.cpp - Rows that are divided, beside columns ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The factors of a row are those of its group, and as many bytes as the row. A
// block's rows of one group follow each other, so factors stay in registers
// until the group is another one. Longer rows than a warp has registers for are
// taken by teams of warps, of which each has the same part of every row.
//
// Where products do not fit beside the factors, both passes over a row
// multiply.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/InnerAxis.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Chunks of products that a lane keeps beside as many of factors: 16 of its
/// registers for each of both.
static constexpr int64_t kMostHeldProducts = 4;
/// Chunks of a row that a lane loads at once with their factors, where it does
/// not hold these. Left alone, ptxas begins more loads than there are registers
/// for.
static constexpr int64_t kLoadedChunks = 4;

namespace {
class DividedRowsBuilder : public InnerAxisBuilder {
public:
  DividedRowsBuilder(SinglePassOuterKernel &kernel, Value warp)
      : InnerAxisBuilder(kernel), warp(warp),
        team(b.divU(warp, kernel.tile.rowTeamWarps)),
        laneByte(
            b.add(b.mul(b.remU(warp, kernel.tile.rowTeamWarps), getWarpBytes()),
                  b.mul(kernel.lane, kChunkBytes))),
        isLeader(
            kernel.both(kernel.isFirstLane,
                        b.equal(b.remU(warp, kernel.tile.rowTeamWarps), 0))) {}

  void build();

private:
  bool hasTeams() const { return k.tile.rowTeamWarps > 1; }
  int64_t countTeams() const { return k.tile.rowWarps / k.tile.rowTeamWarps; }
  int64_t getTeamBytes() const { return k.tile.rowTeamWarps * getWarpBytes(); }
  int64_t countChunks() const {
    return llvm::divideCeil(k.tile.rowBytes, getTeamBytes());
  }
  /// Factors that stay in registers: of all chunks, or of none, as loading the
  /// others would take registers, too.
  int64_t countHeld() const {
    return holdsFactors(k.tile.rowBytes) ? countChunks() : 0;
  }
  bool holdsProducts() const { return countChunks() <= kMostHeldProducts; }
  /// Whether every lane has its chunk `i`.
  bool isWhole(int64_t i) const {
    return (i + 1) * getTeamBytes() <= k.tile.rowBytes;
  }
  /// The first byte in the row of the lane's chunk `i`.
  Value getByte(int64_t i) { return b.add(laneByte, i * getTeamBytes()); }
  /// The same, or that of the last chunk of the row.
  Value getByteInRow(int64_t i);

  Value loadGroup(Value item);
  Value loadFactor(Value group, int64_t i);
  SmallVector<Value> loadFactors(Value group);
  Value getProduct(Value shared, int64_t i, Value group, ValueRange held);
  void limitLoads(int64_t i);
  Value combineTeam(Value magnitude, Value item);
  void handle(Value item, Value group, ValueRange held);

  Value warp, team;
  Value laneByte;
  Value isLeader;
};
} // namespace

Value DividedRowsBuilder::getByteInRow(int64_t i) {
  if (isWhole(i))
    return getByte(i);
  return b.minS(getByte(i), b.i32(k.tile.rowBytes - kChunkBytes));
}

/// The group of a row (i32), that behind all groups for rows of none. Behind
/// the last row it is repeated.
Value DividedRowsBuilder::loadGroup(Value item) {
  Value row = k.widen(b.minS(getRow(item), b.sub(k.rows, 1)));
  // Not read-only, as offsets are not.
  return b.load(b.getI32Type(),
                b.offsetBytes(k.groupsOfRows, b.mul(row, kWordBytes)),
                kWordBytes);
}

Value DividedRowsBuilder::loadFactor(Value group, int64_t i) {
  Value factors =
      b.offsetBytes(k.groupFactors, b.mul(k.widen(group), k.tile.rowBytes));
  return b.load(b.getWordsType(), b.offsetBytes(factors, getByteInRow(i)),
                kChunkBytes);
}

SmallVector<Value> DividedRowsBuilder::loadFactors(Value group) {
  return llvm::map_to_vector(llvm::seq(countHeld()),
                             [&](int64_t i) { return loadFactor(group, i); });
}

/// The lane's chunk `i` of the row at `shared`, times its factors. Behind the
/// row's end it is the row's last one.
Value DividedRowsBuilder::getProduct(Value shared, int64_t i, Value group,
                                     ValueRange held) {
  Value factor = i < countHeld() ? held[i] : loadFactor(group, i);
  Value chunk = b.load(b.getWordsType(), b.offsetBytes(shared, getByteInRow(i)),
                       kChunkBytes);
  return k.multiply(chunk, factor);
}

/// Before chunk `i`: loads of later chunks do not begin before it.
void DividedRowsBuilder::limitLoads(int64_t i) {
  if (countHeld() == 0 && i > 0 && i % kLoadedChunks == 0)
    b.syncSubgroup();
}

/// The largest magnitude of the team. Rows alternate between two sets of words:
/// a warp may be one row ahead, but not two, as it would have to pass the next
/// row's barrier first.
Value DividedRowsBuilder::combineTeam(Value magnitude, Value item) {
  Value turn = b.bitAnd(b.divU(item, countTeams()), 1);
  b.createIf(k.isFirstLane, [&] {
    b.store(magnitude, k.getRowMagnitude(turn, warp), kWordBytes);
  });
  createNamedBarrier(b, b.add(team, kFirstTeamBarrier),
                     k.tile.rowTeamWarps * b.getSubgroupSize());
  Value firstWarp = b.mul(team, k.tile.rowTeamWarps);
  Value largest;
  for (int64_t i : llvm::seq(k.tile.rowTeamWarps)) {
    Value other =
        b.load(b.getI32Type(), k.getRowMagnitude(turn, b.add(firstWarp, i)),
               kWordBytes);
    largest = largest ? b.maxU(largest, other) : other;
  }
  return largest;
}

/// `held` are the factors of `group`, that of the row.
void DividedRowsBuilder::handle(Value item, Value group, ValueRange held) {
  Value shared = waitForRow(item);
  Value largest = b.zeroWords();
  SmallVector<Value> products;
  for (int64_t i : llvm::seq(countChunks())) {
    limitLoads(i);
    products.push_back(getProduct(shared, i, group, held));
    largest = k.math.createAbsMax(largest, products.back());
  }
  Value magnitude = getMagnitude(largest);
  if (hasTeams()) {
    magnitude = combineTeam(magnitude, item);
    // Now all of the team are done with the row before.
    Value before = b.sub(item, countTeams());
    loadRowIfAny(k.both(isLeader, b.lessEqual(b.i32(0), before)),
                 b.add(before, k.tile.rowStages));
  }
  // Keeps the compiler from reusing products of the first pass, which do not
  // fit.
  if (!holdsProducts())
    b.syncSubgroup();
  Value scale = k.math.createScale(magnitude);
  b.createIf(isLeader, [&] { storeScale(item, scale); });
  Value output = getOutput(item);
  for (int64_t i : llvm::seq(countChunks())) {
    limitLoads(i);
    Value product =
        holdsProducts() ? products[i] : getProduct(shared, i, group, held);
    auto store = [&] { storeQuantized(output, getByte(i), product, scale); };
    if (isWhole(i))
      store();
    else
      b.createIf(b.less(getByte(i), k.tile.rowBytes), store);
  }
  // As for the release of a stage of tiles.
  createAsyncProxyFence(b);
  b.syncSubgroup();
  if (hasTeams())
    return;
  loadRowIfAny(k.isFirstLane, b.add(item, k.tile.rowStages));
  b.syncSubgroup();
}

void DividedRowsBuilder::build() {
  b.createIf(isLeader, [&] { loadFirstRows(team, countTeams()); });
  b.syncSubgroup();
  // The group of the next row, that whose factors are held, and these.
  SmallVector<Value> carried{loadGroup(team), b.i32(-1)};
  carried.append(countHeld(), b.zeroWords());
  b.createFor(
      team, items, countTeams(), carried, [&](Value item, ValueRange carried) {
        Value group = carried[0];
        ValueRange held = carried.drop_front(2);
        // On their way while the row is waited for.
        SmallVector<Value> next{loadGroup(b.add(item, countTeams())), group};
        SmallVector<Value> factors = b.createIf(
            b.equal(group, carried[1]), held.getTypes(),
            [&] { return llvm::to_vector_of<Value>(held); },
            [&] { return loadFactors(group); });
        handle(item, group, factors);
        llvm::append_range(next, factors);
        return next;
      });
  b.createIf(isLeader, [&] { announceEnd(); });
}

void single_pass_outer::buildDividedRows(SinglePassOuterKernel &kernel,
                                         Value warp) {
  DividedRowsBuilder(kernel, warp).build();
}
