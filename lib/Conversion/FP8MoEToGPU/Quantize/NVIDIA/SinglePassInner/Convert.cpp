//===- Convert.cpp - Converts whole columns -------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Warps take bulk tiles in turn, once the scales of their column are known,
// line by line. In a line that groups share each element selects its scale.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Builder.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_inner;

/// A chunk's bytes in FP8, as a word or two.
Value SinglePassInnerBuilder::convert(Value words,
                                      ArrayRef<Value> chunkScales) {
  SmallVector<Value> bytes =
      math.createQuantize(math.unpackValues(words), chunkScales);
  if (bytes.size() == 1)
    return bytes.front();
  return vector::FromElementsOp::create(
      b, VectorType::get(bytes.size(), b.getI32Type()), bytes);
}

Value SinglePassInnerBuilder::loadScale(const BulkTile &bulkTile, Value group) {
  return b.load(b.getF32Type(),
                getTableEntry(memory.scales, bulkTile.slot, group), kWordBytes);
}

/// Goes over the groups of a line; each element selects its scale.
SharedLine SinglePassInnerBuilder::getScales(const BulkTile &bulkTile,
                                             const Line &line, Cursor cursor,
                                             Value scale) {
  int64_t chunkRows = getChunkRows();
  // The group at hand, where it begins, and the scale of each element so far.
  SmallVector<Value> init{cursor.end, cursor.group, cursor.end};
  init.append(chunkRows, scale);
  auto loop = scf::WhileOp::create(
      b, ValueRange(init).getTypes(), init,
      [&](OpBuilder &, Location, ValueRange state) {
        scf::ConditionOp::create(b, b.less(state[0], line.end), state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        Cursor next = getNextGroup({state[1], state[0]}, bulkTile);
        Value nextScale = loadScale(bulkTile, next.group);
        Value begin = b.sub(b.sub(state[0], line.row), line.laneRow);
        SmallVector<Value> yielded{next.end, next.group, state[0]};
        for (auto [i, scale] : llvm::enumerate(state.drop_front(3)))
          yielded.push_back(b.select(
              b.lessEqual(begin, static_cast<int64_t>(i)), nextScale, scale));
        scf::YieldOp::create(b, yielded);
      });
  return {{loop.getResult(1), loop.getResult(0)},
          loop.getResult(2),
          SmallVector<Value>(loop.getResults().drop_front(3))};
}

void SinglePassInnerBuilder::buildConvert(Value number) {
  int64_t chunkRows = getChunkRows();
  forEachBulkTile(number, tile.convertWarps, [&](const BulkTile &bulkTile) {
    createBarrierWait(b, getScaledBarrier(bulkTile.slot), bulkTile.slotParity);
    // Complete already; what a copy brought is visible to who waited for it.
    ring.createWaitFull(bulkTile.position);
    Value pointer = getLanePointer(bulkTile);
    Value laneRow = b.mul(lane, chunkRows);
    Value column = widen(b.add(firstColumn, bulkTile.column));
    Value element = b.add(b.mul(column, sizes.outParallel),
                          widen(b.add(b.add(firstRow, bulkTile.row), laneRow)));
    Value target = b.offsetBytes(output, element);
    // Rows behind the last group are zero, whatever they hold.
    auto isRemainder = [&](Value group) { return b.equal(group, present); };
    auto isInside = [&](Value row) {
      return b.less(b.add(row, laneRow), bulkTile.rows);
    };
    auto store = [&](Value row, Value words, ArrayRef<Value> chunkScales,
                     Value isInside) {
      Value bytes = convert(words, chunkScales);
      b.createIf(isInside, [&] {
        b.store(bytes, b.offsetBytes(target, widen(row)), chunkRows);
      });
    };
    forEachLine(
        bulkTile, getGroup(bulkTile.group, bulkTile),
        loadScale(bulkTile, bulkTile.group),
        [&](ArrayRef<Value> rows, Cursor cursor, Value scale) {
          SmallVector<Value> conditions, lines;
          for (Value row : rows) {
            conditions.push_back(rows.size() > 1 ? b.i1(true) : isInside(row));
            lines.push_back(arith::SelectOp::create(
                b, isRemainder(cursor.group), b.zeroWords(),
                loadLine(pointer, row, conditions.back())));
          }
          for (auto [row, words, condition] :
               llvm::zip_equal(rows, lines, conditions))
            store(row, words, SmallVector<Value>(chunkRows, scale), condition);
          return scale;
        },
        [&](Value row, Value lineEnd, Cursor cursor, Value scale) {
          Value condition = isInside(row);
          Value words = loadLine(pointer, row, condition);
          SharedLine shared =
              getScales(bulkTile, {row, lineEnd, laneRow}, cursor, scale);
          Value left =
              b.createIf(
                   isRemainder(shared.last.group), {b.getWordsType()},
                   [&] {
                     Value count = b.sub(b.sub(shared.lastBegin, row), laneRow);
                     return SmallVector<Value>{
                         arith::AndIOp::create(b, words, getMaskBelow(count))};
                   },
                   [&] { return SmallVector<Value>{words}; })
                  .front();
          store(row, left, shared.scales, condition);
          return SmallVector<Value>{shared.last.end, shared.last.group,
                                    loadScale(bulkTile, shared.last.group)};
        });
    // An arrival does not wait for loads of shared memory in flight, and the
    // next copy would overtake them.
    createAsyncProxyFence(b);
    b.syncSubgroup();
    b.createIf(isFirstLane,
               [&] { ring.createRelease(bulkTile.position.stage); });
  });
}
