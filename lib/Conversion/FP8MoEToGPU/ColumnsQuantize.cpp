//===- ColumnsQuantize.cpp - Quantize whole columns from one read ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ColumnsQuantize.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::columns;

/// Lines that a warp loads before it uses the first of them.
static constexpr int64_t kLinesAtOnce = 4;
static constexpr int64_t kWordBytes = sizeof(int32_t);
/// Words of input in a chunk.
static constexpr int64_t kChunkWords = kChunkBytes / kWordBytes;

namespace {

/// Part of a column in a stage of the ring, all i32.
struct Piece {
  RingPosition position;
  /// The column, counted from the block's first, and where its magnitudes and
  /// scales are.
  Value column, slot, slotParity;
  /// The first row in the block's part, and the number of rows.
  Value row, rows;
  /// The group of the first row.
  Value group;
};

/// A group and its end, counted from the first row of a piece.
struct Cursor {
  Value group, end;
};

class ColumnsBuilder {
public:
  ColumnsBuilder(KernelBuilder &b, const QuantizeProblem &problem,
                 const ColumnsTile &tile, const SharedMemory &memory);

  void build();

private:
  int64_t getInputBytes() const { return math.getInputBytes(); }
  int64_t getChunkRows() const { return kChunkBytes / getInputBytes(); }
  int64_t getLineRows() const { return kLineBytes / getInputBytes(); }
  bool isCluster() const { return tile.cluster > 1; }

  // What all columns have in common.
  void divideWork();
  std::pair<Value, Value> dividePart(Value length);
  void initialize();
  void findGroups();

  // The roles.
  void buildProducer();
  void buildScale();
  void buildMeasure(Value warp);
  void buildConvert(Value warp);

  void forEachPiece(Value first, int64_t step,
                    function_ref<void(const Piece &)> body);
  SmallVector<Value> forEachLine(
      const Piece &piece, Cursor first, Value init,
      function_ref<Value(ArrayRef<Value>, Cursor, Value)> whole,
      function_ref<SmallVector<Value>(Value, Value, Cursor, Value)> shared);
  Value getLanePointer(const Piece &piece);
  Value loadLine(Value pointer, Value row, Value isInside);
  Cursor getFirstGroup(const Piece &piece);
  /// The next group that has rows, or the rows behind the last group.
  Cursor getNextGroup(Cursor cursor, const Piece &piece);
  /// The bits of the elements of a chunk before number `count`, which may be
  /// negative or beyond the chunk.
  Value getMaskBelow(Value count);
  void storeMasks();
  void postMagnitude(const Piece &piece, Value group, Value magnitudes);
  Value convert(Value words, ArrayRef<Value> scales);

  // Shared memory.
  Value getShared(int64_t offset, Value index, int64_t bytes) {
    return b.offsetBytes(b.offsetBytes(shared, offset), b.mul(index, bytes));
  }
  Value getTableEntry(int64_t offset, Value slot, Value group) {
    return getShared(offset, b.add(b.mul(slot, tile.groups + 1), group),
                     kWordBytes);
  }
  Value getMeasuredBarrier(Value slot) {
    return getShared(memory.measured, slot, columns::kBarrierBytes);
  }
  Value getScaledBarrier(Value slot) {
    return getShared(memory.scaled, slot, columns::kBarrierBytes);
  }
  Value loadWord(Value pointer) {
    return b.load(b.getI32Type(), pointer, kWordBytes);
  }

  Value narrow(Value value) { return b.truncate(b.getI32Type(), value); }
  Value widen(Value value) { return b.zeroExtend(b.getI64Type(), value); }
  void syncWarp() { NVVM::SyncWarpOp::create(b, b.i32(-1)); }

  KernelBuilder &b;
  const ColumnsTile &tile;
  const SharedMemory &memory;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;
  StageRing ring;
  Value input, offsets, output, scales, shared;

  // All i32.
  Value lane, warp, isFirstLane, groups;
  /// The block's number in its cluster, the block's first column, the number of
  /// its columns, its first row, the number of its rows.
  Value rank, firstColumn, numColumns, firstRow, numRows;
  /// Pieces of the block's part of a column, their rows, and the pieces of all
  /// of the cluster's blocks.
  Value pieces, pieceRows, allPieces;
};

} // namespace

ColumnsBuilder::ColumnsBuilder(KernelBuilder &b, const QuantizeProblem &problem,
                               const ColumnsTile &tile,
                               const SharedMemory &memory)
    : b(b), tile(tile), memory(memory),
      math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo),
      ring(b, b.offsetBytes(b.getDynamicShared(), memory.ring), memory.stages),
      input(b.getPointer(0)), offsets(b.getPointer(1)), output(b.getPointer(2)),
      scales(b.getPointer(3)), shared(b.getDynamicShared()) {
  unsigned parameter = 0;
  for (auto [from, to] : llvm::zip_equal(QuantizeSizes<int64_t>::members(),
                                         QuantizeSizes<Value>::members())) {
    int64_t size = problem.sizes.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  lane = narrow(b.getLane());
  warp = createUniformWarp(b);
  isFirstLane = b.equal(lane, 0);
  groups = narrow(sizes.segments);
}

void ColumnsBuilder::build() {
  divideWork();
  initialize();
  createWarpRoles(
      b, warp,
      {{/*warps=*/1, [&](Value) { buildProducer(); }},
       {/*warps=*/1, [&](Value) { buildScale(); }},
       {tile.measureWarps, [&](Value number) { buildMeasure(number); }},
       {tile.convertWarps, [&](Value number) { buildConvert(number); }}});
  // Others may still send magnitudes here.
  if (isCluster())
    createClusterBarrier(b);
}

//===----------------------------------------------------------------------===//
// What all columns have in common
//===----------------------------------------------------------------------===//

/// The number of pieces of `length` rows, and the rows of each but the last.
std::pair<Value, Value> ColumnsBuilder::dividePart(Value length) {
  int64_t most = kPieceBytes / getInputBytes();
  Value count = b.maxS(b.ceilDiv(length, most), 1);
  Value rows =
      b.maxS(b.roundUp(b.ceilDiv(length, count), getLineRows()), getLineRows());
  return {b.ceilDiv(length, rows), rows};
}

void ColumnsBuilder::divideWork() {
  Value block = narrow(b.getBlock());
  Value blocks = NVVM::GridDimXOp::create(b, b.getI32Type());
  rank = b.remU(block, tile.cluster);
  Value team = widen(b.divU(block, tile.cluster));
  Value teams = widen(b.divU(blocks, tile.cluster));
  auto getColumn = [&](Value number) {
    return narrow(b.divU(b.mul(number, sizes.kept), teams));
  };
  firstColumn = getColumn(team);
  numColumns = b.sub(getColumn(b.add(team, 1)), firstColumn);

  Value rows = narrow(sizes.reduced);
  Value part = b.roundUp(b.ceilDiv(rows, tile.cluster), getLineRows());
  auto getRow = [&](Value number) { return b.minS(b.mul(number, part), rows); };
  firstRow = getRow(rank);
  numRows = b.sub(getRow(b.add(rank, 1)), firstRow);
  std::tie(pieces, pieceRows) = dividePart(numRows);
  allPieces = b.i32(0);
  for (int64_t other : llvm::seq(tile.cluster)) {
    Value length = b.sub(getRow(b.i32(other + 1)), getRow(b.i32(other)));
    allPieces = b.add(allPieces, dividePart(length).first);
  }
}

void ColumnsBuilder::initialize() {
  b.createIf(b.equal(b.getThread(), 0), [&] {
    ring.createInit(/*fullArrivals=*/1, /*releases=*/1);
    for (int64_t slot : llvm::seq(memory.slots)) {
      createBarrierInit(b, getMeasuredBarrier(b.i32(slot)), allPieces);
      createBarrierInit(b, getScaledBarrier(b.i32(slot)),
                        b.i32(b.getSubgroupSize()));
    }
    createBarrierInitFence(b);
  });
  // Magnitudes begin at zero. So do scales: those of the rows behind the last
  // group stay.
  Value words = b.i32(2 * memory.slots * (tile.groups + 1));
  b.createFor(narrow(b.getThread()), words, b.getNumThreads(), [&](Value word) {
    b.store(b.i32(0), getShared(memory.magnitudes, word, kWordBytes),
            kWordBytes);
  });
  storeMasks();
  b.createIf(b.equal(warp, 0), [&] { findGroups(); });
  b.createBarrier();
  if (isCluster())
    createClusterBarrier(b);
}

/// By one warp: the end of each group in the block's rows, and the group that
/// each piece begins in.
void ColumnsBuilder::findGroups() {
  Value rows = narrow(sizes.reduced);
  auto larger = [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); };
  b.createFor(
      b.i32(0), b.add(groups, 1), b.getSubgroupSize(), b.i32(0),
      [&](Value first, ValueRange carried) {
        Value group = b.add(first, lane);
        Value isGroup = b.less(group, groups);
        Value end =
            b.createIf(
                 isGroup, {b.getI32Type()},
                 [&] {
                   Value pointer =
                       b.offsetBytes(offsets, b.mul(widen(group), kWordBytes));
                   Value end = b.load(b.getI32Type(), pointer, kWordBytes,
                                      /*readOnly=*/true);
                   return SmallVector<Value>{b.clamp(end, 0, rows)};
                 },
                 [&] { return SmallVector<Value>{rows}; })
                .front();
        // Ends never decrease.
        for (int64_t step = 1; step < b.getSubgroupSize(); step *= 2)
          end = larger(end, b.shuffleIndex(end, b.maxS(b.sub(lane, step), 0)));
        end = larger(end, carried[0]);
        b.createIf(b.lessEqual(group, groups), [&] {
          b.store(b.clamp(b.sub(end, firstRow), 0, numRows),
                  getShared(memory.ends, group, kWordBytes), kWordBytes);
        });
        return SmallVector<Value>{
            b.shuffleIndex(end, b.i32(b.getSubgroupSize() - 1))};
      });
  syncWarp();
  b.createFor(lane, pieces, b.getSubgroupSize(), [&](Value piece) {
    Value row = b.mul(piece, pieceRows);
    auto search = scf::WhileOp::create(
        b, TypeRange(b.getI32Type()), ValueRange(b.i32(0)),
        [&](OpBuilder &, Location, ValueRange carried) {
          Value end = loadWord(getShared(memory.ends, carried[0], kWordBytes));
          Value isPast =
              b.bitAnd(b.less(carried[0], groups), b.lessEqual(end, row));
          scf::ConditionOp::create(b, isPast, carried);
        },
        [&](OpBuilder &, Location, ValueRange carried) {
          scf::YieldOp::create(b, b.add(carried[0], 1));
        });
    b.store(search.getResult(0),
            getShared(memory.firstGroups, piece, kWordBytes), kWordBytes);
  });
}

//===----------------------------------------------------------------------===//
// Pieces and groups
//===----------------------------------------------------------------------===//

void ColumnsBuilder::forEachPiece(Value first, int64_t step,
                                  function_ref<void(const Piece &)> body) {
  b.createFor(first, b.mul(numColumns, pieces), step, [&](Value index) {
    Piece piece;
    piece.position = ring.getPosition(index);
    piece.column = b.divU(index, pieces);
    piece.slot = b.remU(piece.column, memory.slots);
    piece.slotParity = b.bitAnd(b.divU(piece.column, memory.slots), 1);
    Value number = b.sub(index, b.mul(piece.column, pieces));
    piece.row = b.mul(number, pieceRows);
    piece.rows = b.minS(pieceRows, b.sub(numRows, piece.row));
    piece.group = loadWord(getShared(memory.firstGroups, number, kWordBytes));
    body(piece);
  });
}

/// Several lines at a time where they lie in one group, else one. A value is
/// carried along: `whole` returns the next one, `shared` the end of the group
/// at the end of its line, that group, and the value.
SmallVector<Value> ColumnsBuilder::forEachLine(
    const Piece &piece, Cursor first, Value init,
    function_ref<Value(ArrayRef<Value>, Cursor, Value)> whole,
    function_ref<SmallVector<Value>(Value, Value, Cursor, Value)> shared) {
  int64_t lineRows = getLineRows();
  SmallVector<Type> types{b.getI32Type(), b.getI32Type(), init.getType()};
  auto pass = [&](ArrayRef<Value> rows, ValueRange carried) {
    Value next = whole(rows, {carried[1], carried[0]}, carried[2]);
    return SmallVector<Value>{carried[0], carried[1], next};
  };
  auto takeLine = [&](Value row, ValueRange carried) {
    Value lineEnd = b.minS(b.add(row, lineRows), piece.rows);
    return b.createIf(
        b.lessEqual(lineEnd, carried[0]), types,
        [&] { return pass(row, carried); },
        [&] {
          return shared(row, lineEnd, {carried[1], carried[0]}, carried[2]);
        });
  };
  int64_t blockRows = kLinesAtOnce * lineRows;
  return b.createFor(
      b.i32(0), piece.rows, blockRows, {first.end, first.group, init},
      [&](Value row, ValueRange carried) {
        Value blockEnd = b.add(row, blockRows);
        Value isWhole = b.lessEqual(blockEnd, b.minS(carried[0], piece.rows));
        return b.createIf(
            isWhole, types,
            [&] {
              SmallVector<Value> rows;
              for (int64_t line : llvm::seq(kLinesAtOnce))
                rows.push_back(b.add(row, line * lineRows));
              return pass(rows, carried);
            },
            [&] {
              return b.createRareFor(row, b.minS(blockEnd, piece.rows),
                                     lineRows, carried, takeLine);
            });
      });
}

/// Where a lane's chunk of the first line is.
Value ColumnsBuilder::getLanePointer(const Piece &piece) {
  return b.offsetBytes(getShared(0, piece.position.stage, kPieceBytes),
                       b.mul(lane, kChunkBytes));
}

/// The lane's chunk of the line that begins at `row`; zero behind the piece.
Value ColumnsBuilder::loadLine(Value pointer, Value row, Value isInside) {
  return b
      .createIf(
          isInside, {b.getWordsType()},
          [&] {
            Value words =
                b.load(b.getWordsType(),
                       b.offsetBytes(pointer, b.mul(row, getInputBytes())),
                       kChunkBytes);
            return SmallVector<Value>{words};
          },
          [&] { return SmallVector<Value>{b.zeroWords()}; })
      .front();
}

Cursor ColumnsBuilder::getFirstGroup(const Piece &piece) {
  Value end = loadWord(getShared(memory.ends, piece.group, kWordBytes));
  return {piece.group, b.sub(end, piece.row)};
}

Cursor ColumnsBuilder::getNextGroup(Cursor cursor, const Piece &piece) {
  Type i32 = b.getI32Type();
  auto search = scf::WhileOp::create(
      b, TypeRange{i32, i32}, ValueRange{cursor.group},
      [&](OpBuilder &, Location, ValueRange carried) {
        Value group = b.add(carried[0], 1);
        Value end = b.sub(loadWord(getShared(memory.ends, group, kWordBytes)),
                          piece.row);
        Value isEmpty =
            b.bitAnd(b.less(group, groups), b.lessEqual(end, cursor.end));
        scf::ConditionOp::create(b, isEmpty, ValueRange{group, end});
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::YieldOp::create(b, carried[0]);
      });
  return {search.getResult(0), search.getResult(1)};
}

/// Masks are loaded: to compute one takes as long as to convert a chunk.
Value ColumnsBuilder::getMaskBelow(Value count) {
  Value entry = b.clamp(count, 0, getChunkRows());
  return b.load(b.getWordsType(), getShared(memory.masks, entry, kChunkBytes),
                kChunkBytes);
}

void ColumnsBuilder::storeMasks() {
  constexpr int64_t kByteBits = 8;
  Value thread = narrow(b.getThread());
  b.createIf(b.less(thread, (getChunkRows() + 1) * kChunkWords), [&] {
    Value bytes = b.mul(b.divU(thread, kChunkWords), getInputBytes());
    Value before = b.mul(b.remU(thread, kChunkWords), kWordBytes);
    Value bits = b.mul(b.clamp(b.sub(bytes, before), 0, kWordBytes), kByteBits);
    Value mask = b.sub(b.shiftLeft(b.i64(1), widen(bits)), 1);
    b.store(narrow(mask), getShared(memory.masks, thread, kWordBytes),
            kWordBytes);
  });
}

//===----------------------------------------------------------------------===//
// Producer and scales
//===----------------------------------------------------------------------===//

void ColumnsBuilder::buildProducer() {
  b.createIf(createElect(b), [&] {
    Value element =
        b.add(b.mul(widen(firstColumn), sizes.inKept), widen(firstRow));
    Value source = b.offsetBytes(input, b.mul(element, getInputBytes()));
    Value pitch = b.mul(sizes.inKept, getInputBytes());
    RingPosition begin = ring.getPosition(b.i32(0));
    b.createFor(b.i32(0), numColumns, 1, {source, begin.stage, begin.parity},
                [&](Value, ValueRange column) {
                  SmallVector<Value> position = b.createFor(
                      b.i32(0), pieces, 1, {column[1], column[2]},
                      [&](Value number, ValueRange carried) {
                        RingPosition position{carried[0], carried[1]};
                        Value row = b.mul(number, pieceRows);
                        Value rows = b.minS(pieceRows, b.sub(numRows, row));
                        Value bytes = b.mul(rows, getInputBytes());
                        ring.createWaitEmpty(position);
                        Value full = ring.getFullBarrier(position.stage);
                        createArriveExpecting(b, full, bytes);
                        createBulkLoad(
                            b,
                            b.offsetBytes(column[0],
                                          widen(b.mul(row, getInputBytes()))),
                            getShared(0, position.stage, kPieceBytes), bytes,
                            full);
                        RingPosition next = ring.getNext(position);
                        return SmallVector<Value>{next.stage, next.parity};
                      });
                  return SmallVector<Value>{b.offsetBytes(column[0], pitch),
                                            position[0], position[1]};
                });
  });
}

void ColumnsBuilder::buildScale() {
  b.createFor(b.i32(0), numColumns, 1, [&](Value column) {
    Value slot = b.remU(column, memory.slots);
    Value parity = b.bitAnd(b.divU(column, memory.slots), 1);
    createBarrierWait(b, getMeasuredBarrier(slot), parity,
                      isCluster() ? BarrierScope::Cluster
                                  : BarrierScope::Block);
    b.createFor(lane, groups, b.getSubgroupSize(), [&](Value group) {
      Value pointer = getTableEntry(memory.magnitudes, slot, group);
      Value scale = math.createScale(loadWord(pointer));
      b.store(b.i32(0), pointer, kWordBytes);
      b.store(scale, getTableEntry(memory.scales, slot, group), kWordBytes);
      // The blocks of a cluster share the groups.
      b.createIf(b.equal(b.remU(group, tile.cluster), rank), [&] {
        Value element =
            b.add(b.mul(widen(group), sizes.scaleSegment),
                  b.mul(widen(b.add(firstColumn, column)), sizes.scaleKept));
        b.store(scale, b.offsetBytes(scales, b.mul(element, sizeof(float))),
                sizeof(float));
      });
    });
    // Each lane vouches for what it stored.
    createArrive(b, getScaledBarrier(slot));
  });
}

//===----------------------------------------------------------------------===//
// Magnitudes
//===----------------------------------------------------------------------===//

/// Combines the magnitudes of the warp's lanes, and tells all blocks of the
/// cluster.
void ColumnsBuilder::postMagnitude(const Piece &piece, Value group,
                                   Value magnitudes) {
  SmallVector<Value> words = b.unpackWords(magnitudes);
  Value largest;
  if (getInputBytes() == 4) {
    largest = b.maxU(b.maxU(words[0], words[1]), b.maxU(words[2], words[3]));
  } else {
    auto halves = VectorType::get(2, b.getI16Type());
    auto combine = [&](Value lhs, Value rhs) -> Value {
      return arith::MaxUIOp::create(b, lhs, rhs);
    };
    for (Value &word : words)
      word = LLVM::BitcastOp::create(b, halves, word);
    Value both = LLVM::BitcastOp::create(
        b, b.getI32Type(),
        combine(combine(words[0], words[1]), combine(words[2], words[3])));
    // The bits of a bf16 are the upper half of the f32 with the same value.
    largest = b.maxU(b.shiftLeft(both, 16), b.bitAnd(both, 0xFFFF0000));
  }
  largest = NVVM::ReduxOp::create(b, b.getI32Type(), largest,
                                  NVVM::ReduxKind::UMAX, b.i32(-1));
  Value pointer = getTableEntry(memory.magnitudes, piece.slot, group);
  b.createIf(b.less(lane, tile.cluster), [&] {
    if (isCluster())
      pointer = createClusterPointer(b, pointer, lane);
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, pointer, largest,
                              LLVM::AtomicOrdering::monotonic,
                              isCluster() ? "cluster" : "block");
  });
}

void ColumnsBuilder::buildMeasure(Value number) {
  Type i32 = b.getI32Type();
  Type wordsType = b.getWordsType();
  forEachPiece(number, tile.measureWarps, [&](const Piece &piece) {
    ring.createWaitFull(piece.position);
    Value pointer = getLanePointer(piece);
    Value laneRow = b.mul(lane, getChunkRows());
    Cursor first = getFirstGroup(piece);
    auto isInside = [&](Value row) {
      return b.less(b.add(row, laneRow), piece.rows);
    };
    SmallVector<Value> last = forEachLine(
        piece, first, b.zeroWords(),
        [&](ArrayRef<Value> rows, Cursor, Value largest) {
          SmallVector<Value> lines;
          for (Value row : rows)
            lines.push_back(loadLine(
                pointer, row, rows.size() > 1 ? b.i1(true) : isInside(row)));
          for (Value words : lines)
            largest = math.createAbsMax(largest, words);
          return largest;
        },
        [&](Value row, Value lineEnd, Cursor cursor, Value largest) {
          // What is left of the line belongs to the group at hand or to later
          // ones.
          Value words = loadLine(pointer, row, isInside(row));
          Value left = math.createAbsMax(b.zeroWords(), words);
          auto loop = scf::WhileOp::create(
              b, TypeRange{i32, i32, wordsType, wordsType},
              ValueRange{cursor.end, cursor.group, largest, left},
              [&](OpBuilder &, Location, ValueRange state) {
                scf::ConditionOp::create(b, b.less(state[0], lineEnd), state);
              },
              [&](OpBuilder &, Location, ValueRange state) {
                Value count = b.sub(b.sub(state[0], row), laneRow);
                Value own =
                    arith::AndIOp::create(b, state[3], getMaskBelow(count));
                Value rest = arith::XOrIOp::create(b, state[3], own);
                postMagnitude(piece, state[1], math.createMax(state[2], own));
                Cursor next = getNextGroup({state[1], state[0]}, piece);
                scf::YieldOp::create(
                    b, ValueRange{next.end, next.group, b.zeroWords(), rest});
              });
          return SmallVector<Value>{
              loop.getResult(0), loop.getResult(1),
              math.createMax(loop.getResult(2), loop.getResult(3))};
        });
    postMagnitude(piece, last[1], last[2]);
    // A lane told one block, and tells it that this was all.
    Value barrier = getMeasuredBarrier(piece.slot);
    b.createIf(b.less(lane, tile.cluster), [&] {
      if (isCluster())
        createRemoteArrive(b, createClusterPointer(b, barrier, lane));
      else
        createArrive(b, barrier);
    });
  });
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// A chunk's bytes in FP8, as a word or two.
Value ColumnsBuilder::convert(Value words, ArrayRef<Value> chunkScales) {
  SmallVector<Value> bytes =
      math.createQuantize(math.unpackValues(words), chunkScales);
  if (bytes.size() == 1)
    return bytes.front();
  return vector::FromElementsOp::create(
      b, VectorType::get(bytes.size(), b.getI32Type()), bytes);
}

void ColumnsBuilder::buildConvert(Value number) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  int64_t chunkRows = getChunkRows();
  forEachPiece(number, tile.convertWarps, [&](const Piece &piece) {
    createBarrierWait(b, getScaledBarrier(piece.slot), piece.slotParity);
    // Complete already; what a copy brought is visible to who waited for it.
    ring.createWaitFull(piece.position);
    Value pointer = getLanePointer(piece);
    Value laneRow = b.mul(lane, chunkRows);
    Value column = widen(b.add(firstColumn, piece.column));
    Value element = b.add(b.mul(column, sizes.outKept),
                          widen(b.add(b.add(firstRow, piece.row), laneRow)));
    Value target = b.offsetBytes(output, element);
    auto loadScale = [&](Value group) {
      return b.load(f32, getTableEntry(memory.scales, piece.slot, group),
                    kWordBytes);
    };
    // Rows behind the last group are zero, whatever they hold.
    auto isTail = [&](Value group) { return b.equal(group, groups); };
    auto isInside = [&](Value row) {
      return b.less(b.add(row, laneRow), piece.rows);
    };
    auto getWords = [&](Value row, Value group, Value isInside) -> Value {
      return arith::SelectOp::create(b, isTail(group), b.zeroWords(),
                                     loadLine(pointer, row, isInside));
    };
    auto store = [&](Value row, Value words, ArrayRef<Value> chunkScales,
                     Value isInside) {
      Value bytes = convert(words, chunkScales);
      b.createIf(isInside, [&] {
        b.store(bytes, b.offsetBytes(target, widen(row)), chunkRows);
      });
    };
    Cursor first = getFirstGroup(piece);
    forEachLine(
        piece, first, loadScale(first.group),
        [&](ArrayRef<Value> rows, Cursor cursor, Value scale) {
          SmallVector<Value> conditions, lines;
          for (Value row : rows) {
            conditions.push_back(rows.size() > 1 ? b.i1(true) : isInside(row));
            lines.push_back(getWords(row, cursor.group, conditions.back()));
          }
          for (auto [row, words, condition] :
               llvm::zip_equal(rows, lines, conditions))
            store(row, words, SmallVector<Value>(chunkRows, scale), condition);
          return scale;
        },
        [&](Value row, Value lineEnd, Cursor cursor, Value scale) {
          // The scale of each element, as far as the group at hand.
          SmallVector<Value> init{cursor.end, cursor.group,
                                  getWords(row, cursor.group, isInside(row))};
          init.append(chunkRows, scale);
          SmallVector<Type> types{i32, i32, b.getWordsType()};
          types.append(chunkRows, f32);
          auto loop = scf::WhileOp::create(
              b, types, init,
              [&](OpBuilder &, Location, ValueRange state) {
                scf::ConditionOp::create(b, b.less(state[0], lineEnd), state);
              },
              [&](OpBuilder &, Location, ValueRange state) {
                Value begin = b.sub(b.sub(state[0], row), laneRow);
                Cursor next = getNextGroup({state[1], state[0]}, piece);
                Value nextScale = loadScale(next.group);
                SmallVector<Value> left = b.createIf(
                    isTail(next.group), {b.getWordsType()},
                    [&] {
                      return SmallVector<Value>{arith::AndIOp::create(
                          b, state[2], getMaskBelow(begin))};
                    },
                    [&] { return SmallVector<Value>{state[2]}; });
                SmallVector<Value> yielded{next.end, next.group, left.front()};
                for (int64_t i : llvm::seq(chunkRows))
                  yielded.push_back(arith::SelectOp::create(
                      b, b.lessEqual(begin, i), nextScale, state[3 + i]));
                scf::YieldOp::create(b, yielded);
              });
          store(row, loop.getResult(2),
                SmallVector<Value>(loop.getResults().drop_front(3)),
                isInside(row));
          return SmallVector<Value>{loop.getResult(0), loop.getResult(1),
                                    loadScale(loop.getResult(1))};
        });
    // An arrival does not wait for loads of shared memory in flight, and the
    // next copy would overtake them.
    createAsyncProxyFence(b);
    syncWarp();
    b.createIf(isFirstLane, [&] { ring.createRelease(piece.position.stage); });
  });
}

gpu::GPUFuncOp fp8moe::buildColumnsQuantize(
    Location loc, gpu::GPUModuleOp module, StringRef name,
    const QuantizeProblem &problem, const ColumnsTile &tile,
    const columns::SharedMemory &memory, const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 4;
  for (auto member : QuantizeSizes<int64_t>::members())
    signature.sizes += ShapedType::isDynamic(problem.sizes.*member);
  signature.hasBlockCount = false;
  signature.threads = tile.getThreads(hooks.getSubgroupSize());
  signature.cluster = tile.cluster;
  KernelBuilder b(loc, module, name, signature, hooks);
  ColumnsBuilder(b, problem, tile, memory).build();
  return b.getKernel();
}
