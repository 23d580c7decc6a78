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

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Columns.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Factors of a cell's rows that a lane loads, of which the four lanes that
/// have the same rows of other columns have all.
static constexpr int64_t kLaneFactors = 4;
/// Rows after which lines are swizzled alike.
static constexpr int64_t kSwizzleLines = 8;

namespace {
/// Where the cell of a thread is in a tile: its first column, of a tile with
/// one row a line and in this one, and the first row of its half of the tile
/// (two-row tiles have two).
struct CellPlace {
  Value virtualColumn, column, secondRows;
};

/// A tile in registers: what is to be done with it, and the thread's cell.
struct TakenTile {
  TileRecord record;
  /// Lines of the input, as loadCell and loadRowsAbove have them.
  SmallVector<Value> cell;

  /// Of the record, what converting needs.
  static constexpr auto members() {
    using T = TileRecord;
    return std::array{&T::flags,  &T::panel, &T::segment, &T::row,
                      &T::column, &T::low,   &T::high,    &T::paddedHigh};
  }
  static TakenTile fromValues(ValueRange values) {
    constexpr size_t size = members().size();
    return {fp8moe::fromValues(members(), values.take_front(size)),
            llvm::to_vector_of<Value>(values.drop_front(size))};
  }
  SmallVector<Value> toValues() const {
    SmallVector<Value> values = fp8moe::toValues(record, members());
    llvm::append_range(values, cell);
    return values;
  }
};

class ConvertBuilder {
public:
  ConvertBuilder(SinglePassOuterKernel &kernel, Value warp);

  void build();

private:
  int64_t getCellColumns() const { return kCellBytes / k.getInputBytes(); }

  /// The row of a cell that the lane reads as number `index`.
  Value getRow(int64_t index) { return b.bitXor(position, index); }
  SmallVector<Value> loadCell(Value stage, Value isTwoRow);
  SmallVector<Value> loadFactors(const TileRecord &record);
  void multiplyCell(MutableArrayRef<Value> lines, ArrayRef<Value> factors);
  Value getElement(Value line, int64_t column);
  CellWords createWords(ArrayRef<Value> cell, ArrayRef<Value> scales);
  SmallVector<Value> scalePacked(ArrayRef<Value> lines, ArrayRef<Value> scales);
  CellWords createPackedWords(ArrayRef<Value> cell, ArrayRef<Value> scales);
  CellWords createFixUpWords(ArrayRef<Value> cell, ArrayRef<Value> scales,
                             ArrayRef<Value> previous, Value firstRow,
                             Value low);
  CellWords orderRows(const CellWords &words);
  CellWords maskPadding(const CellWords &words, Value firstRow, Value high);
  CellPlace locate(const TileRecord &record);
  Value hasAbove(const TileRecord &record, Value secondRows);
  Value leavesLast(const TileRecord &record, Value secondRows);
  SmallVector<Value> createEmptyCell();
  TakenTile take(Value stage);
  void convert(const TakenTile &tile);

  SmallVector<Value> loadRowsAbove(Value stage, Value secondRows);
  SmallVector<Value> loadFactorsAbove(const TileRecord &record,
                                      Value secondRows);
  SmallVector<Value> createPairsAbove(ArrayRef<Value> lines,
                                      ArrayRef<Value> scales);
  Value getPointer(Value segment, Value column, Value row);
  /// `high`, or an end before all rows for a column that is none.
  Value getEnd(Value column, Value high) {
    return b.select(b.less(column, k.columns), high,
                    b.i32(std::numeric_limits<int32_t>::min() / 2));
  }
  void zeroRemainder(const EndRecord &record);

  CellWords fromFlat(ArrayRef<Value> flat) {
    CellWords words;
    for (int64_t column : llvm::seq(getCellColumns()))
      words.push_back(llvm::to_vector(flat.slice(column * 4, 4)));
    return words;
  }
  SmallVector<Value> toFlat(const CellWords &words) {
    SmallVector<Value> flat;
    for (ArrayRef<Value> column : words)
      llvm::append_range(flat, column);
    return flat;
  }
  /// `ifTrue` or `ifFalse`, which compute words.
  CellWords createChoice(Value condition, function_ref<CellWords()> ifTrue,
                         function_ref<CellWords()> ifFalse) {
    SmallVector<Type> types(4 * getCellColumns(), b.getI32Type());
    return fromFlat(b.createIf(
        condition, types, [&] { return toFlat(ifTrue()); },
        [&] { return toFlat(ifFalse()); }));
  }

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value team;
  /// Which cell of a tile the thread has: the 16-byte chunk of a line, the half
  /// of it, and the position down the rows.
  Value chunk, half, position;
  /// Where the row that the lane reads first is in a stage.
  Value firstOffset, firstTwoRowOffset;
  /// Where the first of its rows above is: in the box above a tile, and in the
  /// upper half of one with two rows a line.
  Value firstAboveOffset, lastOfUpperOffset;
  ColumnStores stores;
};
} // namespace

ConvertBuilder::ConvertBuilder(SinglePassOuterKernel &kernel, Value warp)
    : k(kernel), b(kernel.b), stores(kernel) {
  team = b.divU(warp, SinglePassOuterTile::kTeamWarps);
  position = stores.getPosition();
  half = b.remU(b.divU(k.lane, kCellLanes), 2);
  Value warpInTeam = b.remU(warp, SinglePassOuterTile::kTeamWarps);
  chunk = b.add(b.mul(warpInTeam, 2), b.divU(k.lane, 2 * kCellLanes));
  Value inChunk = b.mul(half, kCellBytes);
  // Row `position` of the cell, which each lane reads first.
  Value row = b.add(b.mul(position, kCellRows), position);
  firstOffset = b.add(k.getChunkOffset(row, chunk), inChunk);
  // The upper four chunk numbers are the second 128 rows. Odd rows are in the
  // second halves of lines.
  constexpr int64_t kHalfChunks = kLineChunks / 2;
  Value line =
      b.add(b.mul(b.divU(chunk, kHalfChunks), kLines / 2), b.divU(row, 2));
  firstTwoRowOffset = b.add(
      k.getTwoRowChunkOffset(line, b.remU(row, 2), b.remU(chunk, kHalfChunks)),
      inChunk);
  static_assert(kLaneRowsAbove == 2, "a line of a tile with two rows a line");
  firstAboveOffset =
      b.add(k.getChunkOffset(b.mul(position, kLaneRowsAbove), chunk), inChunk);
  Value lastLine = b.add(position, (kLines - kCellRows) / 2);
  lastOfUpperOffset =
      b.add(k.getTwoRowChunkOffset(lastLine, /*lineHalf=*/b.i32(0),
                                   b.remU(chunk, kHalfChunks)),
            inChunk);
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// The cell's rows, as vector<2xi32>, in the order in which the lane reads
/// them. A row's place is that of the lane's first one with some bits flipped:
/// bits of its line, of its half where lines have two rows, and of the swizzle.
/// Half of the rows later, only the line is another.
SmallVector<Value> ConvertBuilder::loadCell(Value stage, Value isTwoRow) {
  Type type = VectorType::get(2, b.getI32Type());
  auto loadRows = [&](Value first, int64_t rowsInLine, int64_t swizzleBits) {
    Value tile = k.getStage(stage);
    SmallVector<Value> rows;
    for (int64_t row : llvm::seq(kCellRows)) {
      int64_t low = row % kSwizzleLines, line = low / rowsInLine;
      int64_t flipped =
          low * kLineBytes / rowsInLine | (line & swizzleBits) * kChunkBytes;
      int64_t later = (row - low) / rowsInLine * kLineBytes;
      rows.push_back(b.load(
          type, b.offsetBytes(tile, b.add(b.bitXor(first, flipped), later)),
          kCellBytes));
    }
    return rows;
  };
  return b.createIf(
      isTwoRow, SmallVector<Type>(kCellRows, type),
      [&] { return loadRows(firstTwoRowOffset, 2, kLineChunks / 2 - 1); },
      [&] { return loadRows(firstOffset, 1, kLineChunks - 1); });
}

/// Of the factors of a cell's rows, which the four lanes beside each other have
/// together, those of the lane. None where nothing is divided.
SmallVector<Value> ConvertBuilder::loadFactors(const TileRecord &record) {
  if (!k.problem.divided)
    return {};
  Value factors = k.getFactors(record);
  Value firstRow = b.add(b.mul(position, kCellRows), locate(record).secondRows);
  Value firstIndex = b.mul(b.divU(k.lane, kCellLanes), kLaneFactors);
  return llvm::map_to_vector(llvm::seq(kLaneFactors), [&](int64_t i) {
    Value row = b.bitXor(position, b.add(firstIndex, i));
    return k.loadFactor(factors, b.add(firstRow, row));
  });
}

/// Multiplies the lines of a cell, in the order in which the lane reads them.
void ConvertBuilder::multiplyCell(MutableArrayRef<Value> lines,
                                  ArrayRef<Value> factors) {
  for (auto [index, line] : llvm::enumerate(lines)) {
    Value lane = b.add(position, index / kLaneFactors * kCellLanes);
    line =
        k.multiply(line, b.shuffleIndex(factors[index % kLaneFactors], lane));
  }
}

/// The f32 value of an element of a cell's row.
Value ConvertBuilder::getElement(Value line, int64_t column) {
  int64_t perWord = kWordBytes / k.getInputBytes();
  Value word = b.createOrFold<vector::ExtractOp>(line, column / perWord);
  SmallVector<Value> bits = k.unpackValues(word);
  return b.bitcast(b.getF32Type(), bits[column % perWord]);
}

/// Lines of a cell times the scales of their columns, exact in bf16.
SmallVector<Value> ConvertBuilder::scalePacked(ArrayRef<Value> lines,
                                               ArrayRef<Value> scales) {
  auto cellType = VectorType::get(getCellColumns(), b.getBF16Type());
  SmallVector<Value> narrowScales;
  for (Value scale : scales)
    narrowScales.push_back(arith::TruncFOp::create(b, b.getBF16Type(), scale));
  Value factor = vector::FromElementsOp::create(b, cellType, narrowScales);
  return llvm::map_to_vector(lines, [&](Value line) {
    return k.math.createPackedProduct(line, factor);
  });
}

CellWords ConvertBuilder::createPackedWords(ArrayRef<Value> cell,
                                            ArrayRef<Value> scales) {
  SmallVector<Value> scaled = scalePacked(cell, scales);
  CellWords words(scales.size());
  for (size_t column : llvm::seq(scales.size()))
    for (int64_t row = 0; row < kCellRows; row += 4) {
      SmallVector<Value> values;
      for (int64_t i : llvm::seq<int64_t>(4))
        values.push_back(getElement(scaled[row + i], column));
      words[column].push_back(
          b.getHooks().createPackFP8(b, values, k.problem.fp8Type));
    }
  return words;
}

CellWords ConvertBuilder::createWords(ArrayRef<Value> cell,
                                      ArrayRef<Value> scales) {
  if (k.math.scalesPacked())
    return createPackedWords(cell, scales);
  CellWords words;
  for (auto [column, scale] : llvm::enumerate(scales)) {
    SmallVector<Value> values;
    for (Value line : cell)
      values.push_back(getElement(line, column));
    words.push_back(
        k.math.createQuantize(values, SmallVector<Value>(kCellRows, scale)));
  }
  return words;
}

/// The same when rows before `low` have other scales.
CellWords ConvertBuilder::createFixUpWords(ArrayRef<Value> cell,
                                           ArrayRef<Value> scales,
                                           ArrayRef<Value> previous,
                                           Value firstRow, Value low) {
  CellWords words(scales.size());
  Value rowsBefore = b.sub(low, firstRow);
  // Four rows at a time, so that few conditions are alive.
  for (int64_t row = 0; row < kCellRows; row += 4)
    for (size_t column : llvm::seq(scales.size())) {
      SmallVector<Value> values, rowScales;
      for (int64_t i : llvm::seq(row, row + 4)) {
        values.push_back(getElement(cell[i], column));
        rowScales.push_back(b.select(b.less(getRow(i), rowsBefore),
                                     previous[column], scales[column]));
      }
      words[column].append(k.math.createQuantize(values, rowScales));
    }
  return words;
}

/// The words of a cell with rows in ascending order. A word has four rows.
CellWords ConvertBuilder::orderRows(const CellWords &words) {
  // Byte i of a word comes from byte i XOR the lowest two bits of the position.
  constexpr int64_t kBytesInOrder = 0x3210, kEachSelector = 0x1111;
  Value selector =
      b.bitXor(b.mul(b.bitAnd(position, 3), kEachSelector), kBytesInOrder);
  Value swapsWords = k.isNonZero(b.bitAnd(position, 4));
  CellWords ordered;
  for (ArrayRef<Value> column : words) {
    SmallVector<Value> bytes;
    for (Value word : column)
      bytes.push_back(b.permuteBytes(word, word, selector));
    SmallVector<Value> result;
    for (size_t i : llvm::seq(bytes.size()))
      result.push_back(b.select(swapsWords, bytes[i ^ 1], bytes[i]));
    ordered.push_back(result);
  }
  return ordered;
}

/// Zeroes the rows from `high` on.
CellWords ConvertBuilder::maskPadding(const CellWords &words, Value firstRow,
                                      Value high) {
  Value data = b.sub(high, firstRow);
  return createChoice(
      b.lessEqual(b.i32(kCellRows), data), [&] { return words; },
      [&] {
        CellWords masked = words;
        for (int64_t i : llvm::seq<int64_t>(4)) {
          Value bytes = b.clamp(b.sub(data, 4 * i), 0, 4);
          Value below =
              b.sub(b.shiftLeft(b.i32(1), b.mul(b.minS(bytes, 3), 8)), 1);
          Value mask = b.select(b.equal(bytes, 4), b.i32(-1), below);
          for (SmallVector<Value> &column : masked)
            column[i] = b.bitAnd(column[i], mask);
        }
        return masked;
      });
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

Value ConvertBuilder::getPointer(Value segment, Value column, Value row) {
  Value element = b.add(b.add(b.mul(k.widen(segment), k.sizes.outSegment),
                              b.mul(k.widen(column), k.sizes.outParallel)),
                        k.widen(row));
  return b.offsetBytes(k.output, element);
}

/// Two rows for each lane, 16 above the first one together, of the columns of
/// its cell. Those of the lower half of a tile are the last ones of the upper
/// half. Where there are none, anything.
SmallVector<Value> ConvertBuilder::loadRowsAbove(Value stage,
                                                 Value secondRows) {
  auto type = VectorType::get(2, b.getI32Type());
  SmallVector<Type> types(kLaneRowsAbove, type);
  return b.createIf(
      stores.needsRowsAbove(), types,
      [&] {
        Value isLower = k.isNonZero(secondRows);
        Value place =
            b.select(isLower, k.getStage(stage), k.getRowsAbove(stage));
        // The next row is in the next line, which is swizzled by its number, or
        // in the other half of the same one.
        Value first = b.select(isLower, lastOfUpperOffset, firstAboveOffset);
        Value flipped =
            b.select(isLower, b.i32(kLineBytes / 2), kLineBytes | kChunkBytes);
        SmallVector<Value> rows;
        for (Value offset : {first, b.bitXor(first, flipped)})
          rows.push_back(
              b.load(type, b.offsetBytes(place, offset), kCellBytes));
        return rows;
      },
      [&] {
        Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
        return SmallVector<Value>(kLaneRowsAbove, zero);
      });
}

/// Of the factors of a tile's rows above, those of the lane. None where nothing
/// is divided.
SmallVector<Value> ConvertBuilder::loadFactorsAbove(const TileRecord &record,
                                                    Value secondRows) {
  if (!k.problem.divided)
    return {};
  Value firstRow =
      b.add(b.sub(b.mul(position, kLaneRowsAbove), kCellRows), secondRows);
  return llvm::map_to_vector(llvm::seq(kLaneRowsAbove), [&](int64_t i) {
    return k.loadFactor(k.getFactors(record), b.add(firstRow, i));
  });
}

/// The same quantized, as ColumnSeams has them.
SmallVector<Value> ConvertBuilder::createPairsAbove(ArrayRef<Value> lines,
                                                    ArrayRef<Value> scales) {
  bool isPacked = k.math.scalesPacked();
  SmallVector<Value> scaled;
  if (isPacked)
    scaled = scalePacked(lines, scales);
  SmallVector<Value> pairs;
  for (int64_t column = 0; column < getCellColumns(); column += 2) {
    SmallVector<Value> values, valueScales;
    for (int64_t i : {column, column + 1})
      for (Value line : isPacked ? ArrayRef(scaled) : lines) {
        values.push_back(getElement(line, i));
        valueScales.push_back(scales[i]);
      }
    if (isPacked)
      pairs.push_back(b.getHooks().createPackFP8(b, values, k.problem.fp8Type));
    else
      pairs.append(k.math.createQuantize(values, valueScales));
  }
  return pairs;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> ConvertBuilder::createEmptyCell() {
  auto row = b.getZeroAttr(VectorType::get(2, b.getI32Type()));
  return SmallVector<Value>(kCellRows + kLaneRowsAbove,
                            arith::ConstantOp::create(b, row).getResult());
}

CellPlace ConvertBuilder::locate(const TileRecord &record) {
  Value isTwoRow = tile_flags::kTwoRow.isSet(b, record.flags);
  CellPlace place;
  place.virtualColumn = b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  int64_t halfColumns = k.getTileColumns() / 2;
  place.column =
      b.add(record.column,
            b.select(isTwoRow, b.remU(place.virtualColumn, halfColumns),
                     place.virtualColumn));
  Value isLower =
      k.both(isTwoRow, b.lessEqual(b.i32(halfColumns), place.virtualColumn));
  place.secondRows = b.select(isLower, b.i32(kLines), 0);
  return place;
}

// The lower half of a tile has rows of the upper one to write if that is full
// of data.

/// As kHasAbove, of the half that begins at `secondRows`.
Value ConvertBuilder::hasAbove(const TileRecord &record, Value secondRows) {
  return b.select(k.isNonZero(secondRows),
                  b.lessEqual(b.i32(kLines), record.high),
                  tile_flags::kHasAbove.isSet(b, record.flags));
}

/// As kLeavesLast.
Value ConvertBuilder::leavesLast(const TileRecord &record, Value secondRows) {
  Value isUpper = k.both(tile_flags::kTwoRow.isSet(b, record.flags),
                         b.equal(secondRows, 0));
  return b.select(isUpper, b.lessEqual(b.i32(kLines), record.high),
                  tile_flags::kLeavesLast.isSet(b, record.flags));
}

/// Takes what is in a stage into registers, and gives the stage back (that of
/// an end as well, which nobody fills again).
TakenTile ConvertBuilder::take(Value stage) {
  TakenTile tile;
  tile.record = k.loadTileRecord(stage);
  Value secondRows = locate(tile.record).secondRows;
  // First, as memory takes longer than the ring.
  SmallVector<Value> factors = loadFactors(tile.record);
  SmallVector<Value> factorsAbove = loadFactorsAbove(tile.record, secondRows);
  // Also where nothing is converted: a branch around the loads takes longer
  // than they do. What is read there is not used.
  tile.cell = loadCell(stage, tile_flags::kTwoRow.isSet(b, tile.record.flags));
  SmallVector<Value> above = loadRowsAbove(stage, secondRows);
  k.releaseStage(stage);
  if (k.problem.divided) {
    multiplyCell(tile.cell, factors);
    for (auto [row, factor] : llvm::zip_equal(above, factorsAbove))
      row = k.multiply(row, factor);
  }
  llvm::append_range(tile.cell, above);
  return tile;
}

/// Waits for the scales of a tile, then quantizes and stores it.
void ConvertBuilder::convert(const TakenTile &tile) {
  const TileRecord &record = tile.record;
  Value needsFixUp =
      k.haveFixUps() ? tile_flags::kFixUp.isSet(b, record.flags) : b.i1(false);
  int64_t columns = getCellColumns();
  CellPlace place = locate(record);
  Value firstRow = b.add(b.mul(position, kCellRows), place.secondRows);
  ArrayRef<Value> cell = ArrayRef(tile.cell).take_front(kCellRows);

  k.waitForScales(record.panel);
  auto loadScales = [&](Value scales) -> Value {
    auto type = VectorType::get(columns, b.getF32Type());
    return b.load(
        type, b.offsetBytes(scales, b.mul(place.virtualColumn, sizeof(float))),
        columns * sizeof(float));
  };
  Value scales = loadScales(k.getPanelScales(record.panel));

  auto unpack = [&](Value vector) {
    SmallVector<Value> values;
    for (int64_t i : llvm::seq(columns))
      values.push_back(b.createOrFold<vector::ExtractOp>(vector, i));
    return values;
  };
  CellWords words = createChoice(
      needsFixUp,
      [&] {
        Value previous = loadScales(k.getFixUpScales(record.panel));
        return createFixUpWords(cell, unpack(scales), unpack(previous),
                                firstRow, record.low);
      },
      [&] { return createWords(cell, unpack(scales)); });
  words = orderRows(words);
  if (k.problem.outputPadding > 1)
    words = maskPadding(words, firstRow, record.high);

  Value low =
      b.select(needsFixUp, b.bitAnd(record.low, -kSectorRows), record.low);
  StoredRows rows{
      getPointer(record.segment, place.column,
                 b.add(record.row, place.secondRows)),
      b.sub(low, place.secondRows),
      getEnd(place.column, b.sub(record.paddedHigh, place.secondRows))};
  stores.store(words, rows, [&] {
    Value scalesAbove = scales;
    if (k.haveFixUps())
      scalesAbove = b.createIf(
                         needsFixUp, scales.getType(),
                         [&] {
                           return SmallVector<Value>{
                               loadScales(k.getFixUpScales(record.panel))};
                         },
                         [&] { return SmallVector<Value>{scales}; })
                        .front();
    ArrayRef<Value> lines = ArrayRef(tile.cell).drop_front(kCellRows);
    return ColumnSeams{hasAbove(record, place.secondRows),
                       leavesLast(record, place.secondRows),
                       createPairsAbove(lines, unpack(scalesAbove))};
  });
}

/// Zeroes the rows behind the last segment; blocks and teams take turns. That
/// the record says which share is the team's spares a register: its number
/// would be kept until here.
void ConvertBuilder::zeroRemainder(const EndRecord &record) {
  Value begin = record.remainder;
  int64_t padding = k.problem.outputPadding;
  Value end = k.narrow(padding > 1 ? k.sizes.extent : k.sizes.reduction);
  Value firstTile = b.divU(begin, kLines);
  Value tiles = b.sub(b.ceilDiv(end, kLines), firstTile);
  tiles = b.select(b.less(begin, end), tiles, 0);
  Value panels = b.ceilDiv(k.columns, k.getTileColumns());
  CellWords zero(getCellColumns(), SmallVector<Value>(4, b.i32(0)));
  SmallVector<Value> noneAbove(getCellColumns() / 2, b.i32(0));
  Value inTile = b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  b.createFor(b.add(k.block, b.mul(record.share, k.numBlocks)),
              b.mul(tiles, panels), b.mul(k.numBlocks, k.tile.convertTeams),
              [&](Value index) {
                Value panel = b.divU(index, tiles);
                Value tile = b.add(firstTile, b.remU(index, tiles));
                Value column = b.add(b.mul(panel, k.getTileColumns()), inTile);
                Value row = b.mul(tile, kLines);
                Value low = b.sub(begin, row), high = b.sub(end, row);
                // What a tile has to write above its first row is zero, too.
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

/// A team that holds two tiles takes one before it converts the one before:
/// tiles wait for their scales without a stage, and loads go ahead of stores.
void ConvertBuilder::build() {
  bool holdsTwo = k.tile.getHeldTiles() == 2;
  RingPosition begin = k.ring.getPosition(team);
  SmallVector<Value> init{b.i1(true), begin.stage, begin.parity};
  if (holdsTwo) {
    init.append(TakenTile::members().size(), b.i32(0));
    llvm::append_range(init, createEmptyCell());
  }
  SmallVector<Value> last = k.createWhile(
      init, ValueRange(init).getTypes(),
      [&](ValueRange carried) {
        return std::pair(carried[0], llvm::to_vector_of<Value>(carried));
      },
      [&](ValueRange carried) {
        // Whether to go on (which `before` has seen), the position, and the
        // tile that is held.
        RingPosition position{carried[1], carried[2]};
        ValueRange heldValues = carried.drop_front(3);
        k.ring.createWaitFull(position);
        TakenTile taken = take(position.stage);
        Value goesOn = k.negate(tile_flags::kEnd.isSet(b, taken.record.flags));
        TakenTile due = holdsTwo ? TakenTile::fromValues(heldValues) : taken;
        b.createIf(tile_flags::kConvert.isSet(b, due.record.flags),
                   [&] { convert(due); });
        RingPosition next = position;
        for (int64_t i = 0; i < k.tile.convertTeams; ++i)
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
