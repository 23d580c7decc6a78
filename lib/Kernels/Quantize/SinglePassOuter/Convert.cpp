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

/// Period of the swizzle in lines.
static constexpr int64_t kSwizzleLines = 8;

/// Returns the swizzled offset of row `row` of a lane, XOR that of its first
/// row. `row` is less than kSwizzleLines.
static int64_t getFlippedBits(int64_t row) {
  return row * kLineBytes | row * kChunkBytes;
}

namespace {
/// Scales of the lines that belong to the previous segment, and an i32 whose
/// bits mark these lines. Null where a tile has no such lines.
struct FixUp {
  Value scales, lines;
};

/// A tile in registers: its record, and the thread's cell.
struct TakenTile {
  TileRecord record;
  /// Input data of the cell, then of the rows above, as loadCell and
  /// loadRowsAbove return it.
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
  /// The first column of the cell in a tile.
  Value getColumnInTile() {
    return b.mul(b.add(b.mul(chunk, 2), half), getCellColumns());
  }

  SmallVector<Value> loadCell(Value stage);
  SmallVector<Value> getValues(ArrayRef<Value> lines);
  Value loadScales(Value scales, Value column, int64_t columns);
  SmallVector<Value> scalePacked(ArrayRef<Value> lines, Value scales,
                                 const FixUp &fixUp = {});
  SmallVector<Value> scaleValues(ArrayRef<Value> lines, Value scales,
                                 const FixUp &fixUp = {});
  Value createLinesBefore(const TileRecord &record, Value firstRow);
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
  SmallVector<Value> createEmptyCell();
  TakenTile take(Value stage);
  void convert(const TakenTile &tile);

  SmallVector<Value> loadRowsAbove(Value stage);
  SmallVector<Value> createWordsAbove(ArrayRef<Value> lines, Value scales);
  Value getPointer(Value segment, Value column, Value row);
  /// Returns `high`, or for a column past the last one, an end before all rows.
  Value getEnd(Value column, Value high) {
    return b.select(b.less(column, k.columns), high,
                    b.i32(std::numeric_limits<int32_t>::min() / 2));
  }
  void zeroRemainder(const TileRecord &end);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value team;
  /// The thread's cell in a tile: the 16-byte chunk of a line, the half of the
  /// chunk, and the position down the rows.
  Value chunk, half, position;
  /// Byte offset in a stage of the row that the lane reads first, and in the
  /// box above a tile of the lane's first row there.
  Value firstOffset, firstAboveOffset;
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
  Value lineAbove = b.mul(b.divU(position, 2), kLaneRowsAbove);
  Value inCell = b.mul(b.remU(position, 2), kCellBytes / 2);
  firstAboveOffset =
      b.add(b.add(k.getChunkOffset(lineAbove, chunk), inChunk), inCell);
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// Makes values opaque, so that LLVM does not merge the same computation of two
/// branches behind both. It would select the operands by as many copies. Making
/// one of both branches opaque is enough.
static SmallVector<Value> keepApart(KernelBuilder &b, ArrayRef<Value> values) {
  return llvm::map_to_vector(values, [&](Value value) -> Value {
    return kernel::OpaqueOp::create(b, value);
  });
}

/// Loads the cell's rows, as vector<2xi32>, in the order in which the lane
/// reads them. A row's address is that of the lane's first row with some bits
/// flipped: bits of the line and of the swizzle. In the second half of the rows
/// only the line differs from the first half.
SmallVector<Value> ConvertBuilder::loadCell(Value stage) {
  KernelBuilder::Step step(b, "load_cell");
  Type type = VectorType::get(2, b.getI32Type());
  Value tile = k.getStage(stage);
  SmallVector<Value> rows;
  for (int64_t row : llvm::seq(kCellRows)) {
    int64_t low = row % kSwizzleLines;
    Value offset = b.add(b.bitXor(firstOffset, getFlippedBits(low)),
                         (row - low) * kLineBytes);
    rows.push_back(b.load(type, b.offsetBytes(tile, offset), kCellBytes));
  }
  return rows;
}

/// Returns the elements of lines as f32, line by line.
SmallVector<Value> ConvertBuilder::getValues(ArrayRef<Value> lines) {
  SmallVector<Value> values;
  for (Value line : lines)
    for (int64_t i :
         llvm::seq(cast<VectorType>(line.getType()).getNumElements())) {
      Value word = b.createOrFold<vector::ExtractOp>(line, i);
      for (Value bits : k.math.unpackWord(word))
        values.push_back(b.bitcast(b.getF32Type(), bits));
    }
  return values;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Loads a panel's scales (f32) of `columns` columns of a tile from `column`
/// on.
Value ConvertBuilder::loadScales(Value scales, Value column, int64_t columns) {
  return b.load(VectorType::get(columns, b.getF32Type()),
                b.offsetBytes(scales, b.mul(column, sizeof(float))),
                columns * sizeof(float));
}

/// Packs scales, which bf16 represents exactly, into words.
static Value packScales(KernelBuilder &b, Value scales) {
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  Value narrow = arith::TruncFOp::create(
      b, VectorType::get(columns, b.getBF16Type()), scales);
  return vector::BitCastOp::create(
      b, VectorType::get(columns / 2, b.getI32Type()), narrow);
}

/// Returns the products of bf16 elements in vectors of words.
static Value multiply(SinglePassOuterKernel &k, Value words, Value factors) {
  int64_t numWords = cast<VectorType>(words.getType()).getNumElements();
  auto elements = VectorType::get(2 * numWords, k.b.getBF16Type());
  return k.math.createPackedProduct(
      words, vector::BitCastOp::create(k.b, elements, factors));
}

/// Returns an i1: whether a line belongs to the previous segment. Null if no
/// line does.
static Value isBefore(KernelBuilder &b, const FixUp &fixUp, int64_t line) {
  return fixUp.lines ? b.isNonZero(b.bitAnd(fixUp.lines, 1 << line)) : Value();
}

/// Returns lines times the scales of their columns as bf16, which is exact.
SmallVector<Value> ConvertBuilder::scalePacked(ArrayRef<Value> lines,
                                               Value scales,
                                               const FixUp &fixUp) {
  KernelBuilder::Step step(b, "scale_packed");
  Value own = packScales(b, scales), before;
  if (fixUp.lines)
    before = packScales(b, fixUp.scales);
  SmallVector<Value> scaled;
  for (auto [index, line] : llvm::enumerate(lines)) {
    Value condition = isBefore(b, fixUp, index);
    scaled.push_back(
        multiply(k, line, condition ? b.select(condition, before, own) : own));
  }
  return scaled;
}

/// Returns the elements of lines times the scales of their columns as f32
/// products.
SmallVector<Value> ConvertBuilder::scaleValues(ArrayRef<Value> lines,
                                               Value scales,
                                               const FixUp &fixUp) {
  KernelBuilder::Step step(b, "scale_values");
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  SmallVector<Value> values = getValues(lines);
  for (auto [i, value] : llvm::enumerate(values)) {
    auto getScale = [&, i = i](Value vector) {
      return b.createOrFold<vector::ExtractOp>(vector, i % columns);
    };
    Value condition = isBefore(b, fixUp, i / columns);
    Value scale = condition ? b.select(condition, getScale(fixUp.scales),
                                       getScale(scales))
                            : getScale(scales);
    value = arith::MulFOp::create(b, value, scale);
  }
  return values;
}

/// Returns a word whose bit i is set if the lane's i-th line belongs to the
/// previous segment. Line numbers instead would take more registers.
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
    lines = b.select(b.isNonZero(b.bitAnd(position, distance)), swapped, lines);
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Converts two f32 to FP8 in the lower half of a word. The upper half is
/// undefined.
Value ConvertBuilder::createPair(Value low, Value high) {
  Value pair = kernel::PackFP8PairOp::create(b, low, high, k.problem.fp8Type);
  auto halves = VectorType::get(2, b.getI16Type());
  Value any = LLVM::FreezeOp::create(b, LLVM::PoisonOp::create(b, halves));
  return LLVM::BitcastOp::create(
      b, b.getI32Type(), vector::InsertOp::create(b, pair, any, int64_t(0)));
}

/// Packs a cell's scaled values into words of four rows, in ascending order of
/// rows.
CellWords ConvertBuilder::createWords(ArrayRef<Value> values) {
  KernelBuilder::Step step(b, "pack_cell");
  // Byte i of a word comes from byte i XOR the lowest two bits of the position,
  // of two pairs.
  constexpr int64_t kBytesInOrder = 0x3210, kEachSelector = 0x1111,
                    kSecondPair = 0x2222;
  Value selector =
      b.bitXor(b.mul(b.bitAnd(position, 3), kEachSelector), kBytesInOrder);
  selector = b.add(selector, b.bitAnd(selector, kSecondPair));
  Value swapsWords = b.isNonZero(b.bitAnd(position, 4));
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
    for (size_t i : llvm::seq(read.size()))
      words.push_back(b.select(swapsWords, read[i ^ 1], read[i]));
  }
  return words;
}

/// Quantizes a cell that begins at row `firstRow` of the tile. Tiles with and
/// without a fix-up share the conversion, as code for both would exceed the
/// instruction cache beside other roles. For f32 products, sharing would keep
/// twice as many registers.
CellWords ConvertBuilder::quantize(ArrayRef<Value> cell,
                                   const TileRecord &record, Value firstRow) {
  auto loadOfCell = [&](Value scales) {
    return loadScales(scales, getColumnInTile(), getCellColumns());
  };
  Value scales = loadOfCell(k.getPanelScales(record.panel));
  auto getFixUp = [&]() -> FixUp {
    Value previous = loadOfCell(k.getFixUpScales(record.panel));
    return {previous, createLinesBefore(record, firstRow)};
  };
  if (k.math.scalesPacked())
    return createWords(getValues(b.createIf(
        needsFixUp(record),
        [&] { return keepApart(b, scalePacked(cell, scales, getFixUp())); },
        [&] { return scalePacked(cell, scales); })));
  return b.createIf(
      needsFixUp(record),
      [&] { return createWords(scaleValues(cell, scales, getFixUp())); },
      [&] { return createWords(scaleValues(cell, scales)); });
}

/// Zeroes the rows from `high` on.
CellWords ConvertBuilder::maskPadding(const CellWords &words, Value firstRow,
                                      Value high) {
  KernelBuilder::Step step(b, "mask_padding");
  Value data = b.sub(high, firstRow);
  return b.createIf(
      b.lessEqual(b.i32(kCellRows), data), [&] { return words; },
      [&] {
        CellWords masked = words;
        for (int64_t i : llvm::seq<int64_t>(4)) {
          Value bytes = b.clamp(b.sub(data, 4 * i), 0, 4);
          Value below =
              b.sub(b.shiftLeft(b.i32(1), b.mul(b.minS(bytes, 3), 8)), 1);
          Value mask = b.select(b.equal(bytes, 4), b.i32(-1), below);
          for (size_t word = i; word < masked.size(); word += kCellWords)
            masked[word] = b.bitAnd(masked[word], mask);
        }
        return masked;
      });
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
void ConvertBuilder::zeroRemainder(const TileRecord &end) {
  Value begin = end.row;
  int64_t padding = k.problem.outputPadding;
  Value numRows = b.narrow(padding > 1 ? k.sizes.extent : k.sizes.reduction);
  Value firstTile = b.divU(begin, kLines);
  Value tiles = b.sub(b.ceilDiv(numRows, kLines), firstTile);
  tiles = b.select(b.less(begin, numRows), tiles, 0);
  Value panels = b.ceilDiv(k.columns, k.getTileColumns());
  CellWords zero(getCellColumns() * kCellWords, b.i32(0));
  SmallVector<Value> noneAbove(getCellColumns() / 2, b.i32(0));
  Value inTile = getColumnInTile();
  b.createFor(
      b.add(k.block, b.mul(end.panel, k.numBlocks)), b.mul(tiles, panels),
      b.mul(k.numBlocks, SinglePassOuterTile::kConvertTeams), [&](Value index) {
        Value panel = b.divU(index, tiles);
        Value tile = b.add(firstTile, b.remU(index, tiles));
        Value column = b.add(b.mul(panel, k.getTileColumns()), inTile);
        Value row = b.mul(tile, kLines);
        Value low = b.sub(begin, row), high = b.sub(numRows, row);
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
    zeroRemainder(k.loadTileRecord(last[1]));
}

void fp8moe::buildSinglePassOuterConvert(SinglePassOuterKernel &kernel,
                                         Value warp) {
  ConvertBuilder(kernel, warp).build();
}
