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

#include "Kernels/Quantize/SinglePassOuter/Columns.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

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

  /// The members of the record that converting needs.
  static constexpr auto members() {
    using T = TileRecord;
    return std::array{&T::flags, &T::panel,  &T::segment,
                      &T::row,   &T::column, &T::bounds};
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
  /// The first column of the cell in a tile with one row a line.
  Value getVirtualColumn() {
    return b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  }

  SmallVector<Value> loadCell(Value stage, Value isTwoRow);
  SmallVector<Value> getValues(ArrayRef<Value> lines);
  Value loadScales(Value scales, Value column, int64_t columns);
  SmallVector<Value> scalePacked(ArrayRef<Value> lines, Value scales);
  SmallVector<Value> scaleLines(ArrayRef<Value> lines, Value scales);
  Value createLinesBefore(const TileRecord &record, Value firstRow);
  SmallVector<Value> scalePackedFixUp(ArrayRef<Value> lines, Value scales,
                                      Value previous, Value linesBefore);
  SmallVector<Value> scaleFixUp(ArrayRef<Value> lines, Value scales,
                                Value previous, Value linesBefore);
  Value createPair(Value low, Value high);
  CellWords createWords(ArrayRef<Value> values);
  CellWords quantize(ArrayRef<Value> cell, const TileRecord &record,
                     Value firstRow);
  Value getLow(const TileRecord &record) {
    return TileRecord::kLow.get(b, record.bounds);
  }
  Value getHigh(const TileRecord &record) {
    return TileRecord::kHigh.get(b, record.bounds);
  }
  Value needsFixUp(const TileRecord &record) {
    return k.haveFixUps() ? tile_flags::kFixUp.isSet(b, record.flags)
                          : b.i1(false);
  }
  CellWords maskPadding(const CellWords &words, Value firstRow, Value high);
  CellPlace locate(const TileRecord &record);
  Value hasAbove(const TileRecord &record, Value secondRows);
  Value leavesLast(const TileRecord &record, Value secondRows);
  Value ownsSeams(const TileRecord &record);
  SmallVector<Value> createEmptyCell();
  TakenTile take(Value stage);
  void convert(const TakenTile &tile);

  SmallVector<Value> loadRowsAbove(Value stage, Value secondRows);
  SmallVector<Value> createWordsAbove(ArrayRef<Value> lines, Value scales);
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
  // The upper four chunk numbers are the second 128 rows. Odd rows are in the
  // second halves of lines.
  constexpr int64_t kHalfChunks = kLineChunks / 2;
  Value line =
      b.add(b.mul(b.divU(chunk, kHalfChunks), kLines / 2), b.divU(row, 2));
  firstTwoRowOffset = b.add(
      k.getTwoRowChunkOffset(line, b.remU(row, 2), b.remU(chunk, kHalfChunks)),
      inChunk);
  // In a tile with two rows a line, the rows above its lower half are the last
  // ones of the upper half.
  Value lineAbove = b.mul(b.divU(position, 2), kLaneRowsAbove);
  Value inCell = b.mul(b.remU(position, 2), kCellBytes / 2);
  firstAboveOffset =
      b.add(b.add(k.getChunkOffset(lineAbove, chunk), inChunk), inCell);
  Value lastLine = b.add(b.divU(lineAbove, 2), (kLines - kCellRows) / 2);
  lastOfUpperOffset =
      b.add(b.add(k.getTwoRowChunkOffset(lastLine, /*lineHalf=*/b.i32(0),
                                         b.remU(chunk, kHalfChunks)),
                  inChunk),
            inCell);
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// Makes values opaque that one branch computes as another one does, of other
/// operands. LLVM would compute them once behind both branches, and choose the
/// operands, by as many copies. Making one of the two opaque is enough.
static SmallVector<Value> keepApart(KernelBuilder &b, ArrayRef<Value> values) {
  return llvm::map_to_vector(values, [&](Value value) -> Value {
    return kernel::OpaqueOp::create(b, value);
  });
}

/// In what the place of row number `row` of a few, fewer than kSwizzleLines,
/// differs from that of the first one.
static int64_t getFlippedBits(int64_t row, int64_t rowsInLine) {
  int64_t line = row / rowsInLine;
  int64_t swizzle = line & (kLineChunks / rowsInLine - 1);
  return row * kLineBytes / rowsInLine | swizzle * kChunkBytes;
}

/// The cell's rows, as vector<2xi32>, in the order in which the lane reads
/// them. A row's place is that of the lane's first one with some bits flipped:
/// bits of its line, of its half where lines have two rows, and of the swizzle.
/// Half of the rows later, only the line is another.
SmallVector<Value> ConvertBuilder::loadCell(Value stage, Value isTwoRow) {
  Type type = VectorType::get(2, b.getI32Type());
  auto loadRows = [&](Value first, int64_t rowsInLine) {
    Value tile = k.getStage(stage);
    SmallVector<Value> rows;
    for (int64_t row : llvm::seq(kCellRows)) {
      int64_t low = row % kSwizzleLines;
      int64_t later = (row - low) / rowsInLine * kLineBytes;
      Value offset =
          b.add(b.bitXor(first, getFlippedBits(low, rowsInLine)), later);
      rows.push_back(b.load(type, b.offsetBytes(tile, offset), kCellBytes));
    }
    return rows;
  };
  return b.createIf(
      isTwoRow, SmallVector<Type>(kCellRows, type),
      [&] { return keepApart(b, loadRows(firstTwoRowOffset, 2)); },
      [&] { return loadRows(firstOffset, 1); });
}

/// The elements of lines as f32, one line after the other.
SmallVector<Value> ConvertBuilder::getValues(ArrayRef<Value> lines) {
  SmallVector<Value> values;
  for (Value line : lines)
    for (int64_t i :
         llvm::seq(cast<VectorType>(line.getType()).getNumElements())) {
      Value word = b.createOrFold<vector::ExtractOp>(line, i);
      for (Value bits : k.unpackValues(word))
        values.push_back(b.bitcast(b.getF32Type(), bits));
    }
  return values;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// A panel's scales of so many columns from virtual column `column` on, f32.
Value ConvertBuilder::loadScales(Value scales, Value column, int64_t columns) {
  return b.load(VectorType::get(columns, b.getF32Type()),
                b.offsetBytes(scales, b.mul(column, sizeof(float))),
                columns * sizeof(float));
}

/// Scales, which are bf16 numbers, in words.
static Value packScales(KernelBuilder &b, Value scales) {
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  Value narrow = arith::TruncFOp::create(
      b, VectorType::get(columns, b.getBF16Type()), scales);
  return vector::BitCastOp::create(
      b, VectorType::get(columns / 2, b.getI32Type()), narrow);
}

/// The products of bf16 numbers, which are in vectors of words.
static Value multiply(SinglePassOuterKernel &k, Value words, Value factors) {
  int64_t numWords = cast<VectorType>(words.getType()).getNumElements();
  auto elements = VectorType::get(2 * numWords, k.b.getBF16Type());
  return k.math.createPackedProduct(
      words, vector::BitCastOp::create(k.b, elements, factors));
}

/// Lines times the scales of their columns, exact in bf16.
SmallVector<Value> ConvertBuilder::scalePacked(ArrayRef<Value> lines,
                                               Value scales) {
  Value factors = packScales(b, scales);
  return llvm::map_to_vector(
      lines, [&](Value line) { return multiply(k, line, factors); });
}

/// The elements of lines times the scales of their columns (f32).
SmallVector<Value> ConvertBuilder::scaleLines(ArrayRef<Value> lines,
                                              Value scales) {
  if (k.math.scalesPacked())
    return getValues(scalePacked(lines, scales));
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  SmallVector<Value> values = getValues(lines);
  for (auto [i, value] : llvm::enumerate(values))
    value = arith::MulFOp::create(
        b, value, b.createOrFold<vector::ExtractOp>(scales, i % columns));
  return values;
}

/// Bit i: the line that the lane reads as number i belongs to the segment
/// before. All in one word, as the numbers of lines would be kept in registers.
Value ConvertBuilder::createLinesBefore(const TileRecord &record,
                                        Value firstRow) {
  Value rowsBefore = b.clamp(b.sub(getLow(record), firstRow), 0, kCellRows);
  Value lines = b.sub(b.shiftLeft(b.i32(1), rowsBefore), 1);
  // Line i is row i XOR the position.
  constexpr std::pair<int64_t, int64_t> kSwaps[] = {
      {1, 0x5555}, {2, 0x3333}, {4, 0x0f0f}};
  for (auto [distance, lower] : kSwaps) {
    Value swapped = b.bitOr(b.shiftLeft(b.bitAnd(lines, lower), distance),
                            b.bitAnd(b.shiftRight(lines, distance), lower));
    lines = b.select(k.isNonZero(b.bitAnd(position, distance)), swapped, lines);
  }
  return lines;
}

/// As scalePacked, where some lines have the scales `previous`.
SmallVector<Value> ConvertBuilder::scalePackedFixUp(ArrayRef<Value> lines,
                                                    Value scales,
                                                    Value previous,
                                                    Value linesBefore) {
  Value own = packScales(b, scales), before = packScales(b, previous);
  SmallVector<Value> scaled;
  for (auto [index, line] : llvm::enumerate(lines)) {
    Value isBefore = k.isNonZero(b.bitAnd(linesBefore, 1 << index));
    scaled.push_back(multiply(k, line, b.select(isBefore, before, own)));
  }
  return scaled;
}

/// As scaleLines, where some lines have the scales `previous`.
SmallVector<Value> ConvertBuilder::scaleFixUp(ArrayRef<Value> lines,
                                              Value scales, Value previous,
                                              Value linesBefore) {
  int64_t columns = getCellColumns();
  SmallVector<Value> values = getValues(lines);
  for (auto [i, value] : llvm::enumerate(values)) {
    Value isBefore = k.isNonZero(b.bitAnd(linesBefore, 1 << (i / columns)));
    auto getScale = [&, i = i](Value vector) {
      return b.createOrFold<vector::ExtractOp>(vector, i % columns);
    };
    value = arith::MulFOp::create(
        b, value, b.select(isBefore, getScale(previous), getScale(scales)));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Two f32 as FP8 in the lower half of a word. The upper half is anything.
Value ConvertBuilder::createPair(Value low, Value high) {
  Value pair = kernel::PackFP8PairOp::create(b, low, high, k.problem.fp8Type);
  auto halves = VectorType::get(2, b.getI16Type());
  Value any = LLVM::FreezeOp::create(b, LLVM::PoisonOp::create(b, halves));
  return LLVM::BitcastOp::create(
      b, b.getI32Type(), vector::InsertOp::create(b, pair, any, int64_t(0)));
}

/// The words of a cell with rows in ascending order, from values of its lines
/// times their scales. A word has four rows.
CellWords ConvertBuilder::createWords(ArrayRef<Value> values) {
  // Byte i of a word comes from byte i XOR the lowest two bits of the position,
  // of two pairs.
  constexpr int64_t kBytesInOrder = 0x3210, kEachSelector = 0x1111,
                    kSecondPair = 0x2222;
  Value selector =
      b.bitXor(b.mul(b.bitAnd(position, 3), kEachSelector), kBytesInOrder);
  selector = b.add(selector, b.bitAnd(selector, kSecondPair));
  Value swapsWords = k.isNonZero(b.bitAnd(position, 4));
  int64_t columns = getCellColumns();
  CellWords words;
  for (int64_t column : llvm::seq(columns)) {
    auto getPair = [&](int64_t line) {
      return createPair(values[line * columns + column],
                        values[(line + 1) * columns + column]);
    };
    SmallVector<Value> read;
    for (int64_t line = 0; line < kCellRows; line += kWordBytes)
      read.push_back(
          b.permuteBytes(getPair(line), getPair(line + 2), selector));
    SmallVector<Value> ordered;
    for (size_t i : llvm::seq(read.size()))
      ordered.push_back(b.select(swapsWords, read[i ^ 1], read[i]));
    words.push_back(ordered);
  }
  return words;
}

/// The words of a cell whose first row is row `firstRow` of the tile. The code
/// of a tile is more than fits the instruction cache beside that of other
/// roles, so that with and without a fix-up have the conversion in common.
/// Where products are f32, twice as many registers would be kept for it.
CellWords ConvertBuilder::quantize(ArrayRef<Value> cell,
                                   const TileRecord &record, Value firstRow) {
  auto loadOfCell = [&](Value scales) {
    return loadScales(scales, getVirtualColumn(), getCellColumns());
  };
  Value scales = loadOfCell(k.getPanelScales(record.panel));
  auto loadPrevious = [&] {
    return loadOfCell(k.getFixUpScales(record.panel));
  };
  if (k.math.scalesPacked())
    return createWords(getValues(b.createIf(
        needsFixUp(record), ValueRange(cell).getTypes(),
        [&] {
          return keepApart(
              b, scalePackedFixUp(cell, scales, loadPrevious(),
                                  createLinesBefore(record, firstRow)));
        },
        [&] { return scalePacked(cell, scales); })));
  return createChoice(
      needsFixUp(record),
      [&] {
        return createWords(scaleFixUp(cell, scales, loadPrevious(),
                                      createLinesBefore(record, firstRow)));
      },
      [&] { return createWords(scaleLines(cell, scales)); });
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

/// Four rows for each lane, 16 above the first one together, of half of the
/// columns of its cell. The rows above the lower half of a tile are the last
/// ones of the upper half. Where there are none, the result is anything.
SmallVector<Value> ConvertBuilder::loadRowsAbove(Value stage,
                                                 Value secondRows) {
  auto type = VectorType::get(1, b.getI32Type());
  SmallVector<Type> types(kLaneRowsAbove, type);
  auto loadRows = [&](Value place, Value first, int64_t rowsInLine) {
    return llvm::map_to_vector(
        llvm::seq(kLaneRowsAbove), [&](int64_t row) -> Value {
          Value offset = b.bitXor(first, getFlippedBits(row, rowsInLine));
          return b.load(type, b.offsetBytes(place, offset), kCellBytes / 2);
        });
  };
  return b.createIf(
      stores.needRowsAbove(), types,
      [&] {
        return b.createIf(
            k.isNonZero(secondRows), types,
            [&] { return loadRows(k.getStage(stage), lastOfUpperOffset, 2); },
            [&] {
              return loadRows(k.getRowsAbove(stage), firstAboveOffset, 1);
            });
      },
      [&] {
        Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
        return SmallVector<Value>(kLaneRowsAbove, zero);
      });
}

/// The rows above a tile quantized, as ColumnSeams has them. `scales` are those
/// of the columns that the lane has.
SmallVector<Value> ConvertBuilder::createWordsAbove(ArrayRef<Value> lines,
                                                    Value scales) {
  SmallVector<Value> values = scaleLines(lines, scales);
  size_t columns = values.size() / kLaneRowsAbove;
  SmallVector<Value> words;
  for (size_t column : llvm::seq(columns)) {
    SmallVector<Value> rows;
    for (size_t row : llvm::seq(kLaneRowsAbove))
      rows.push_back(values[row * columns + column]);
    llvm::append_range(
        words,
        kernel::PackFP8Op::create(b, rows, k.problem.fp8Type).getWords());
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

CellPlace ConvertBuilder::locate(const TileRecord &record) {
  Value isTwoRow = tile_flags::kTwoRow.isSet(b, record.flags);
  CellPlace place;
  place.virtualColumn = getVirtualColumn();
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
                  b.lessEqual(b.i32(kLines), getHigh(record)),
                  tile_flags::kHasAbove.isSet(b, record.flags));
}

/// As kLeavesLast.
Value ConvertBuilder::leavesLast(const TileRecord &record, Value secondRows) {
  Value isUpper = k.both(tile_flags::kTwoRow.isSet(b, record.flags),
                         b.equal(secondRows, 0));
  return b.select(isUpper, b.lessEqual(b.i32(kLines), getHigh(record)),
                  tile_flags::kLeavesLast.isSet(b, record.flags));
}

/// Whether a tile has the rows above it to write and leaves its last ones, and
/// so have its halves.
Value ConvertBuilder::ownsSeams(const TileRecord &record) {
  Value areFull = b.bitOr(k.negate(tile_flags::kTwoRow.isSet(b, record.flags)),
                          b.lessEqual(b.i32(kLines), getHigh(record)));
  return k.both(k.both(tile_flags::kHasAbove.isSet(b, record.flags),
                       tile_flags::kLeavesLast.isSet(b, record.flags)),
                areFull);
}

/// Takes what is in a stage into registers, and gives the stage back (that of
/// an end as well, which nobody fills again).
TakenTile ConvertBuilder::take(Value stage) {
  TakenTile tile;
  tile.record = k.loadTileRecord(stage);
  Value secondRows = locate(tile.record).secondRows;
  // The loads also run where nothing is converted: a branch around them takes
  // longer than they do. The values that they read there are not used.
  tile.cell = loadCell(stage, tile_flags::kTwoRow.isSet(b, tile.record.flags));
  SmallVector<Value> above = loadRowsAbove(stage, secondRows);
  k.releaseStage(stage);
  llvm::append_range(tile.cell, above);
  return tile;
}

/// Waits for the scales of a tile, then quantizes and stores it.
void ConvertBuilder::convert(const TakenTile &tile) {
  const TileRecord &record = tile.record;
  CellPlace place = locate(record);
  Value firstRow = b.add(b.mul(position, kCellRows), place.secondRows);
  ArrayRef<Value> cell = ArrayRef(tile.cell).take_front(kCellRows);

  k.waitForScales(record.panel);
  CellWords words = quantize(cell, record, firstRow);
  if (k.problem.outputPadding > 1)
    words = maskPadding(words, firstRow, getHigh(record));

  Value low = b.select(needsFixUp(record),
                       b.bitAnd(getLow(record), -kSectorRows), getLow(record));
  StoredRows rows{
      getPointer(record.segment, place.column,
                 b.add(record.row, place.secondRows)),
      b.sub(low, place.secondRows),
      getEnd(place.column, b.sub(TileRecord::kPaddedHigh.get(b, record.bounds),
                                 place.secondRows))};
  stores.store(words, rows, [&] {
    Value scales = k.getPanelScales(record.panel);
    if (k.haveFixUps())
      scales =
          b.select(needsFixUp(record), k.getFixUpScales(record.panel), scales);
    // Even lanes have the first half of the columns of their cells.
    int64_t columns = getCellColumns() / 2;
    Value inCell = b.mul(b.remU(position, 2), columns);
    scales = loadScales(scales, b.add(place.virtualColumn, inCell), columns);
    return ColumnSeams{
        hasAbove(record, place.secondRows),
        leavesLast(record, place.secondRows), ownsSeams(record),
        createWordsAbove(ArrayRef(tile.cell).drop_front(kCellRows), scales)};
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
  Value inTile = getVirtualColumn();
  b.createFor(b.add(k.block, b.mul(record.share, k.numBlocks)),
              b.mul(tiles, panels), b.mul(k.numBlocks, k.tile.convertTeams),
              [&](Value index) {
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
                  Value hasAbove = isZeroAbove(0);
                  return ColumnSeams{hasAbove, leavesLast,
                                     k.both(hasAbove, leavesLast), noneAbove};
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
