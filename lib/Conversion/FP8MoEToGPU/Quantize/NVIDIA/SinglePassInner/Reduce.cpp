//===- Reduce.cpp - The largest magnitudes of whole columns ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Warps take bulk tiles in turn. A bulk tile in which few groups end is
// measured line by line, by all lanes together; else each lane goes over a span
// of its own.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/Cluster.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Builder.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_inner;

/// Ends of groups, before the last span of a bulk tile begins, from which on
/// lanes measure spans of chunks of their own instead of lines together. An end
/// costs a line 65 instructions of a warp, and spans cost 300 more than lines
/// however many end there, so that spans should pay from five on. On one NVIDIA
/// H200, 42 inputs in one run on 2026-11-22, three took 4% less to 2% more time
/// than five, and 0.1% less in the mean.
static constexpr int64_t kEndsForSpans = 3;

/// The larger one of two magnitudes, or of each half of two words of bf16.
Value SinglePassInnerBuilder::largerWord(Value lhs, Value rhs) {
  if (getInputBytes() == 4)
    return b.maxU(lhs, rhs);
  auto halves = VectorType::get(2, b.getI16Type());
  return LLVM::BitcastOp::create(
      b, b.getI32Type(),
      arith::MaxUIOp::create(b, LLVM::BitcastOp::create(b, halves, lhs),
                             LLVM::BitcastOp::create(b, halves, rhs)));
}

/// The largest one of a chunk's words.
Value SinglePassInnerBuilder::getLargest(Value words) {
  SmallVector<Value> word = b.unpackWords(words);
  return largerWord(largerWord(word[0], word[1]), largerWord(word[2], word[3]));
}

/// As the bits of an f32. Those of a bf16 are the upper half of the f32 with
/// the same value.
Value SinglePassInnerBuilder::getLargestHalf(Value word) {
  return getInputBytes() == 4
             ? word
             : b.maxU(b.shiftLeft(word, 16), b.bitAnd(word, 0xFFFF0000));
}

/// Each lane tells all blocks of the cluster.
void SinglePassInnerBuilder::sendMagnitude(const BulkTile &bulkTile,
                                           Value group, Value largest) {
  Value pointer = getTableEntry(memory.magnitudes, bulkTile.slot, group);
  for (int64_t block : llvm::seq(tile.cluster))
    updateMagnitude(isCluster() ? createClusterPointer(b, pointer, b.i32(block))
                                : pointer,
                    largest);
}

/// Combines the magnitudes of the warp's lanes, and tells all blocks of the
/// cluster.
void SinglePassInnerBuilder::postMagnitude(const BulkTile &bulkTile,
                                           Value group, Value largest) {
  largest = b.maxOfLanes(getLargestHalf(largest));
  Value pointer = getTableEntry(memory.magnitudes, bulkTile.slot, group);
  b.createIf(b.less(lane, tile.cluster), [&] {
    updateMagnitude(isCluster() ? createClusterPointer(b, pointer, lane)
                                : pointer,
                    largest);
  });
}

void SinglePassInnerBuilder::updateMagnitude(Value pointer, Value largest) {
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, pointer, largest,
                            LLVM::AtomicOrdering::monotonic,
                            isCluster() ? "cluster"
                                        : b.getHooks().getBlockScope());
}

/// Line by line, all lanes together. Posts all groups.
void SinglePassInnerBuilder::reduceLines(const BulkTile &bulkTile) {
  Type i32 = b.getI32Type();
  Value pointer = getLanePointer(bulkTile);
  Value laneRow = b.mul(lane, getChunkRows());
  auto isInside = [&](Value row) {
    return b.less(b.add(row, laneRow), bulkTile.rows);
  };
  SmallVector<Value> last = forEachLine(
      bulkTile, getGroup(bulkTile.group, bulkTile), b.i32(0),
      [&](ArrayRef<Value> rows, Cursor, Value largest) {
        SmallVector<Value> lines;
        for (Value row : rows)
          lines.push_back(loadLine(
              pointer, row, rows.size() > 1 ? b.i1(true) : isInside(row)));
        Value all = b.zeroWords();
        for (Value words : lines)
          all = math.createAbsMax(all, words);
        return largerWord(largest, getLargest(all));
      },
      [&](Value row, Value lineEnd, Cursor cursor, Value largest) {
        // What is left of the line belongs to the group at hand or to later
        // ones.
        Value words = loadLine(pointer, row, isInside(row));
        Value left = math.createAbsMax(b.zeroWords(), words);
        auto loop = scf::WhileOp::create(
            b, TypeRange{i32, i32, i32, b.getWordsType()},
            ValueRange{cursor.end, cursor.group, largest, left},
            [&](OpBuilder &, Location, ValueRange state) {
              scf::ConditionOp::create(b, b.less(state[0], lineEnd), state);
            },
            [&](OpBuilder &, Location, ValueRange state) {
              Cursor next = getNextGroup({state[1], state[0]}, bulkTile);
              Value count = b.sub(b.sub(state[0], row), laneRow);
              Value own =
                  arith::AndIOp::create(b, state[3], getMaskBelow(count));
              Value rest = arith::XOrIOp::create(b, state[3], own);
              postMagnitude(bulkTile, state[1],
                            largerWord(state[2], getLargest(own)));
              scf::YieldOp::create(
                  b, ValueRange{next.end, next.group, b.i32(0), rest});
            });
        return SmallVector<Value>{
            loop.getResult(0), loop.getResult(1),
            largerWord(loop.getResult(2), getLargest(loop.getResult(3)))};
      });
  postMagnitude(bulkTile, last[1], last[2]);
}

/// Each lane goes over a span of chunks of its own, group by group: where
/// groups are small, lanes come to their ends together, and not one after the
/// other.
void SinglePassInnerBuilder::reduceSpans(const BulkTile &bulkTile) {
  Type i32 = b.getI32Type();
  int64_t chunkRows = getChunkRows();
  Value pointer = getShared(0, bulkTile.position.stage, kBulkTileBytes);
  auto loadMagnitudes = [&](Value row) {
    Value words = b.load(b.getWordsType(),
                         b.offsetBytes(pointer, b.mul(row, getInputBytes())),
                         kChunkBytes);
    return math.createAbsMax(b.zeroWords(), words);
  };
  Value first = b.mul(lane, spanRows);
  Value last = b.minS(b.add(first, spanRows), bulkTile.rows);
  Value group =
      loadWord(b.offsetBytes(bulkTile.firstGroups, b.mul(lane, kWordBytes)));
  scf::WhileOp::create(
      b, TypeRange{i32, i32}, ValueRange{first, group},
      [&](OpBuilder &, Location, ValueRange state) {
        scf::ConditionOp::create(b, b.less(state[0], last), state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        // Rows of a group from `begin` to `end`: those in its first chunk,
        // whole chunks, those in its last chunk.
        Value begin = state[0];
        Value end = b.minS(getGroup(state[1], bulkTile).end, last);
        Value firstChunk = b.bitAnd(begin, -chunkRows);
        Value lastChunk = b.bitAnd(end, -chunkRows);
        Value words = loadMagnitudes(firstChunk);
        words = arith::AndIOp::create(b, words,
                                      getMaskBelow(b.sub(end, firstChunk)));
        Value before = arith::AndIOp::create(
            b, words, getMaskBelow(b.sub(begin, firstChunk)));
        Value largest = getLargest(arith::XOrIOp::create(b, words, before));
        largest =
            b.createFor(b.add(firstChunk, chunkRows), lastChunk, chunkRows,
                        largest,
                        [&](Value row, ValueRange carried) {
                          return SmallVector<Value>{largerWord(
                              carried[0], getLargest(loadMagnitudes(row)))};
                        })
                .front();
        Value hasLast =
            b.bitAnd(b.less(firstChunk, lastChunk), b.less(lastChunk, end));
        largest = b.createIf(
                       hasLast, {i32},
                       [&] {
                         Value own = arith::AndIOp::create(
                             b, loadMagnitudes(lastChunk),
                             getMaskBelow(b.sub(end, lastChunk)));
                         return SmallVector<Value>{
                             largerWord(largest, getLargest(own))};
                       },
                       [&] { return SmallVector<Value>{largest}; })
                      .front();
        sendMagnitude(bulkTile, state[1], getLargestHalf(largest));
        scf::YieldOp::create(b, ValueRange{end, b.add(state[1], 1)});
      });
}

void SinglePassInnerBuilder::buildReduce(Value number) {
  forEachBulkTile(number, tile.reduceWarps, [&](const BulkTile &bulkTile) {
    ring.createWaitFull(bulkTile.position);
    Value lastGroup = loadWord(
        b.offsetBytes(bulkTile.firstGroups, (kLaneSpans - 1) * kWordBytes));
    b.createIf(
        b.less(b.sub(lastGroup, bulkTile.group), kEndsForSpans),
        [&] { reduceLines(bulkTile); }, [&] { reduceSpans(bulkTile); });
    // Each lane vouches for what it sent. To another block that would be 32
    // messages; the warp meets, and a lane speaks for all.
    Value barrier = getReducedBarrier(bulkTile.slot);
    if (!isCluster()) {
      createArrive(b, barrier);
      return;
    }
    b.syncSubgroup();
    b.createIf(b.less(lane, tile.cluster), [&] {
      createRemoteArrive(b, createClusterPointer(b, barrier, lane));
    });
  });
}
