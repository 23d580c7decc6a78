//===- Convert.cpp - Quantizes tiles in the ring --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Teams of four warps take tiles in turn. A thread has a cell: 8 bytes of 16
// consecutive rows, so 16 consecutive bytes of the output in each of 4 (bf16)
// or 2 (f32) columns; 8 neighbouring lanes write 128 rows of a column. Lane i
// of these reads row j XOR i when it comes to its row j: the same row of all
// would be in the same banks, as lines are swizzled alike every eight. Bytes
// are put in order at the end.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Convert.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

ConvertBuilder::ConvertBuilder(SinglePassOuterKernel &kernel, Value warp)
    : k(kernel), b(kernel.b), stores(kernel, warp) {
  team = b.divU(warp, SinglePassOuterTile::kTeamWarps);
  position = stores.getPosition();
  half = b.remU(b.divU(k.lane, kCellLanes), 2);
  Value warpInTeam = b.remU(warp, SinglePassOuterTile::kTeamWarps);
  chunk = b.add(b.mul(warpInTeam, 2), b.divU(k.lane, 2 * kCellLanes));
  Value inChunk = b.mul(half, kCellBytes);
  // Row `position` of the cell, which each lane reads first.
  Value row = b.add(b.mul(position, kCellRows), position);
  firstOffset = b.add(k.getChunkOffset(row, chunk), inChunk);
  Value lineAbove = b.mul(b.divU(position, 2), kLaneRowsAbove);
  Value inCell = b.mul(b.remU(position, 2), kCellBytes / 2);
  firstAboveOffset =
      b.add(b.add(k.getChunkOffset(lineAbove, chunk), inChunk), inCell);
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

Value ConvertBuilder::getPointer(Value segment, Value column, Value row) {
  Value element =
      b.add(b.add(b.mul(b.widenSigned(segment), k.sizes.outSegment),
                  b.mul(b.widenSigned(column), k.sizes.outParallel)),
            b.widenSigned(row));
  return b.offsetBytes(k.output, element);
}

/// Loads the lane's four rows of the 16 above the tile, for half of the columns
/// of its cell. Undefined where there are none.
SmallVector<Value> ConvertBuilder::loadRowsAbove(Value stage) {
  KernelBuilder::Step step(b, "load_rows_above");
  auto type = VectorType::get(1, b.getI32Type());
  return b.createIf(
      stores.needRowsAbove(),
      [&] {
        Value place = k.getRowsAbove(stage);
        return llvm::map_to_vector(
            llvm::seq(kLaneRowsAbove), [&](int64_t row) -> Value {
              Value offset = b.bitXor(firstAboveOffset, getFlippedBits(row));
              return b.load(type, b.offsetBytes(place, offset), kCellBytes / 2);
            });
      },
      [&] {
        Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
        return SmallVector<Value>(kLaneRowsAbove, zero);
      });
}

/// Quantizes the rows above a tile, in the layout of ColumnSeams::above.
/// `scales` are those of the lane's columns.
SmallVector<Value> ConvertBuilder::createWordsAbove(ArrayRef<Value> lines,
                                                    Value scales) {
  SmallVector<Value> values = k.math.scalesPacked()
                                  ? getValues(scalePacked(lines, scales))
                                  : scaleValues(lines, scales);
  size_t columns = values.size() / kLaneRowsAbove;
  SmallVector<Value> words;
  for (size_t column : llvm::seq(columns)) {
    SmallVector<Value> rows;
    for (size_t row : llvm::seq(kLaneRowsAbove))
      rows.push_back(values[row * columns + column]);
    llvm::append_range(words, k.math.createFP8(rows));
  }
  return words;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> ConvertBuilder::createEmptyCell() {
  auto createRows = [&](int64_t rows, int64_t words) {
    auto zero = b.getZeroAttr(VectorType::get(words, b.getI32Type()));
    return SmallVector<Value>(rows, arith::ConstantOp::create(b, zero));
  };
  SmallVector<Value> cell = createRows(kCellRows, 2);
  llvm::append_range(cell, createRows(kLaneRowsAbove, 1));
  return cell;
}

/// Loads a stage's record and cell to registers, and releases the stage. (The
/// stage of an end record, too, although it is not filled again.)
TakenTile ConvertBuilder::take(Value stage) {
  TakenTile tile;
  tile.record = k.loadTileRecord(stage);
  // The loads also run where nothing is converted: a branch around them takes
  // longer than they do. The values that they read there are not used.
  tile.cell = loadCell(stage);
  SmallVector<Value> above = loadRowsAbove(stage);
  k.releaseStage(stage);
  llvm::append_range(tile.cell, above);
  return tile;
}

/// Waits for the scales of a tile, then quantizes and stores it.
void ConvertBuilder::convert(const TakenTile &tile) {
  const TileRecord &record = tile.record;
  Value firstRow = b.mul(position, kCellRows);
  ArrayRef<Value> cell = ArrayRef(tile.cell).take_front(kCellRows);

  k.wait(PanelEvent::Scales, record.panel);
  CellWords words = quantize(cell, record, firstRow);
  if (k.problem.outputPadding > 1)
    words = maskPadding(words, firstRow, getHigh(record));

  Value low = b.select(needsFixUp(record),
                       b.bitAnd(getLow(record), -kSectorRows), getLow(record));
  Value column = b.add(record.column, getColumnInTile());
  StoredRows rows{
      getPointer(record.segment, column, record.row), low,
      getEnd(column, TileRecord::kPaddedHigh.get(b, record.bounds))};
  stores.store(words, rows, [&] {
    Value scales = k.getPanelScales(record.panel);
    if (k.haveFixUps())
      scales =
          b.select(needsFixUp(record), k.getFixUpScales(record.panel), scales);
    // Even lanes have the first half of the columns of their cells.
    int64_t columns = getCellColumns() / 2;
    Value inCell = b.mul(b.remU(position, 2), columns);
    scales = loadScales(scales, b.add(getColumnInTile(), inCell), columns);
    return ColumnSeams{
        tile_flags::kHasAbove.isSet(b, record.flags),
        tile_flags::kLeavesLast.isSet(b, record.flags),
        createWordsAbove(ArrayRef(tile.cell).drop_front(kCellRows), scales)};
  });
}

/// Zeroes the rows after the last segment, shared by blocks and teams. The
/// team's share comes from the record, as its index would occupy a register
/// until here.
void ConvertBuilder::zeroRemainder(const EndRecord &record) {
  Value begin = record.remainder;
  int64_t padding = k.problem.outputPadding;
  Value end = b.narrow(padding > 1 ? k.sizes.extent : k.sizes.reduction);
  Value firstTile = b.divU(begin, kLines);
  Value tiles = b.sub(b.ceilDiv(end, kLines), firstTile);
  tiles = b.select(b.less(begin, end), tiles, 0);
  Value panels = b.ceilDiv(k.columns, k.getTileColumns());
  CellWords zero(getCellColumns() * kCellWords, b.i32(0));
  SmallVector<Value> noneAbove(getCellColumns() / 2, b.i32(0));
  Value inTile = getColumnInTile();
  b.createFor(
      b.add(k.block, b.mul(record.share, k.numBlocks)), b.mul(tiles, panels),
      b.mul(k.numBlocks, SinglePassOuterTile::kConvertTeams), [&](Value index) {
        Value panel = b.divU(index, tiles);
        Value tile = b.add(firstTile, b.remU(index, tiles));
        Value column = b.add(b.mul(panel, k.getTileColumns()), inTile);
        Value row = b.mul(tile, kLines);
        Value low = b.sub(begin, row), high = b.sub(end, row);
        // The rows above its first one that a tile has to write are
        // zero, too.
        auto isZeroAbove = [&](int64_t tileRow) {
          return b.lessEqual(low, tileRow - kCellRows);
        };
        StoredRows rows{getPointer(b.i32(0), column, row), low,
                        getEnd(column, high)};
        stores.store(zero, rows, [&] {
          Value leavesLast =
              k.both(b.less(b.i32(kLines), high), isZeroAbove(kLines));
          return ColumnSeams{isZeroAbove(0), leavesLast, noneAbove};
        });
      });
}

/// Builds a convert team. A team that holds two tiles loads one to registers
/// before it converts the previous one: tiles wait for scales without a stage,
/// and loads go ahead of stores.
void ConvertBuilder::build() {
  bool holdsTwo = k.tile.getHeldTiles() == 2;
  RingPosition begin = k.ring.getPosition(team);
  SmallVector<Value> init{b.i1(true), begin.stage, begin.parity};
  if (holdsTwo) {
    init.append(TakenTile::members().size(), b.i32(0));
    llvm::append_range(init, createEmptyCell());
  }
  // Whether to go on, the position, and the tile that is held.
  SmallVector<Value> last = b.createWhile(
      init, [](ValueRange carried) { return carried[0]; },
      [&](ValueRange carried) {
        RingPosition position{carried[1], carried[2]};
        ValueRange heldValues = carried.drop_front(3);
        k.ring.createWaitFull(position);
        TakenTile taken = take(position.stage);
        Value goesOn = k.negate(tile_flags::kEnd.isSet(b, taken.record.flags));
        TakenTile due = holdsTwo ? TakenTile::fromValues(heldValues) : taken;
        b.createIf(tile_flags::kConvert.isSet(b, due.record.flags),
                   [&] { convert(due); });
        RingPosition next = position;
        for (int64_t i = 0; i < SinglePassOuterTile::kConvertTeams; ++i)
          next = k.ring.getNext(next);
        // The last stage is needed for what its record says.
        SmallVector<Value> result{
            goesOn, b.select(goesOn, next.stage, position.stage), next.parity};
        if (holdsTwo)
          llvm::append_range(result, taken.toValues());
        return result;
      });
  if (k.problem.jagged)
    zeroRemainder(k.loadEndRecord(last[1]));
}

void fp8moe::buildSinglePassOuterConvert(SinglePassOuterKernel &kernel,
                                         Value warp) {
  ConvertBuilder(kernel, warp).build();
}
