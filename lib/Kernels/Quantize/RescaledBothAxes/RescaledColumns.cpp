//===- RescaledColumns.cpp - Columns from quantized lines -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block loads a tile of lines and columns in FP8, rescales it to the scales
// of its columns (RescaledBytes) and transposes it. Chunks of 16 with a number
// that cannot be rescaled are listed, and quantized from the input.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledBothAxes.h"

#include "Kernels/Emit/SegmentBounds.h"
#include "Kernels/Emit/TransposeTile.h"
#include "Kernels/Quantize/RescaledBothAxes/RescaledTiles.h"
#include "fp8moe/Conversion/F32Bits.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

using rescaled::kTile;

static_assert(kTile == TransposeTile::kRowBytes);
static_assert(rescaled::kColumnThreads == TransposeTile::kThreads);

/// Lines of which a thread loads a chunk each; they fill a word of a transposed
/// tile.
static constexpr int64_t kPack = kWordBytes;
/// Width, in tiles, of a panel. Blocks process a panel's tiles line by line.
static constexpr int64_t kPanel = 8;
/// Columns that share a least and a largest exponent.
static constexpr int64_t kColumnsOfLimits = kOutputChunk;

/// The number of chunks in a line of a tile. The list of chunks that cannot be
/// rescaled has a word for each: at most all of a tile.
static constexpr int64_t kChunksOfLine = kTile / kOutputChunk;
static constexpr int64_t kListBytes = kTile * kChunksOfLine * kWordBytes;

namespace {
/// Moves the bytes of a line to the scales of their columns.
///
/// Scales are powers of two, so a number has the same fraction in FP8 whatever
/// its scale is: rounding depends on the exponent only where it is subnormal.
/// The byte for the scale of its column is that for the scale of its line with
/// the difference between the scales' exponents added to its own:
///
///   line     x * 2^l = 1.fff * 2^(e - bias)              s eeee fff
///   column   x * 2^c = 1.fff * 2^(e + c - l - bias)      s eeee fff + (c - l)
///
/// That is so where both are normal, and the one of the line is not the least
/// such number, to which a subnormal one may have been rounded. All other
/// numbers have to be quantized from the input: they are few where numbers are
/// distributed normally, as they are 2^15 times smaller than the largest.
///
/// Four bytes are rescaled at once. With S = 2^(bits of fff) and m the seven
/// bits behind the sign, m + S * (c - l) + (128 - S) has bit 7 set where the
/// result is normal, and the sum of no byte reaches the next one: the scale of
/// a column covers each of its elements. So bytes that are none of them, as
/// those behind the last line, must not share a word with others.
class RescaledBytes {
public:
  /// Further from the exponent of any scale than those are from each other, and
  /// differently so for lines and for columns: what has such a scale, a NaN or
  /// zero, is not rescaled.
  static constexpr int64_t kNoLine = -1024, kNoColumn = 1024;
  static constexpr int64_t kSigns = 0x80808080;

  RescaledBytes(KernelBuilder &b, Type fp8Type)
      : b(b),
        step(int64_t(1) << (APFloat::semanticsPrecision(
                                cast<FloatType>(fp8Type).getFloatSemantics()) -
                            1)) {}

  /// The exponent (i32) of a scale's bits, or `otherwise` for what is no power
  /// of two.
  static Value getExponent(KernelBuilder &b, Value bits, int64_t otherwise) {
    Value isZero = b.equal(bits, 0);
    Value isNaN = b.compare(arith::CmpIPredicate::uge, bits, f32::kInfinity);
    return b.select(b.bitOr(isZero, isNaN), b.i32(otherwise),
                    b.shiftRight(bits, f32::kMantissaBits));
  }

  /// i1: whether the exponent of a line is so near those of columns, from the
  /// least to the largest, that no sum leaves its byte.
  Value createIsNear(Value exponent, Value least, Value largest) {
    const int64_t most = getBias() / step;
    return b.bitAnd(b.lessEqual(b.sub(largest, exponent), b.i32(most)),
                    b.lessEqual(b.sub(exponent, least), b.i32(most)));
  }

  /// The term that the exponent of a line subtracts from each byte of a word,
  /// biased so that no sum reaches the next byte.
  Value createLineTerm(Value exponent) {
    return b.mul(b.sub(b.mul(exponent, step), getBias()), kEachByte);
  }

  /// Four bytes of a line, for columns with these exponents (the low bytes of
  /// each, in a word), and a word that has all of kSigns where they are right.
  std::pair<Value, Value> createWord(Value word, Value exponents,
                                     Value lineTerm) {
    Value magnitude = b.bitAnd(word, kMagnitudes);
    Value sum = b.add(magnitude, b.sub(b.mul(exponents, step), lineTerm));
    Value aboveLeast = b.add(magnitude, (kMagnitude - step) * kEachByte);
    Value result = b.add(b.bitAnd(sum, kMagnitudes), step * kEachByte);
    return {b.bitOr(result, b.bitAnd(word, kSigns)), b.bitAnd(sum, aboveLeast)};
  }

private:
  /// The number in each byte of a word; the bits of a byte behind its sign, and
  /// those of each byte.
  static constexpr int64_t kEachByte = 0x01010101;
  static constexpr int64_t kMagnitude = 0x7F;
  static constexpr int64_t kMagnitudes = kMagnitude * kEachByte;

  /// The addend with which normal sums have bit 7.
  int64_t getBias() const { return 0x80 - step; }

  KernelBuilder &b;
  /// The difference between the bytes of a number and of its double.
  int64_t step;
};

/// Scales of the columns of a thread's chunks as their exponents: those of four
/// columns in a word, the least and the largest one.
struct ColumnExponents {
  SmallVector<Value> words;
  Value least, largest;
};

/// The tile that a block makes, of the result's lines and columns.
struct Tile {
  Value segment;
  SegmentView view;
  /// In lines of the output.
  Value firstLine;
  Value firstColumn;
  /// A line's number in the input, which has no paddings, less that in the
  /// output.
  Value moved;
  /// i1: it is the first one of its segment; it lies behind all segments.
  Value isFirst, isRemainder;
  /// i1: nothing lies behind it.
  Value isLast;
};

class RescaledColumnsBuilder {
public:
  RescaledColumnsBuilder(RescaledKernel &kernel)
      : kernel(kernel), b(kernel.getBuilder()), columns(kernel.columns),
        bytes(b, columns.problem.fp8Type),
        transposed(b, /*rowsPerThread=*/kOutputChunk, /*buffers=*/1) {}

  void build(Value lineTiles);

private:
  bool isPadded() const { return columns.problem.outputPadding > 1; }

  FoundSegment loadFoundTile(Value lineTile);
  Tile createTile(Value lineTile, Value firstColumn, Value isLast);
  void createScales(const Tile &tile);
  void storeExponents(Value scale, Value column);
  ColumnExponents loadExponents(Value column);

  void rescaleTile(const Tile &tile);
  /// Lists a chunk of the tile as one that is quantized from the input.
  void listChunk(Value lineInTile, Value column);
  /// Quantizes those that were listed, and puts them where they are transposed.
  void quantizeListed(const Tile &tile);
  /// 16 bytes at once, and i1: whether all of them are right.
  std::pair<Value, Value> rescale(Value chunk, Value lineScale,
                                  const ColumnExponents &exponents);
  /// 16 neighbours of a line, by its numbers in the output and in the input.
  SmallVector<Value> loadInput(const Tile &tile, Value line, Value inInput,
                               Value column);
  /// Their bytes, quantized from the input.
  Value quantize(const Tile &tile, Value line, Value inInput, Value column);
  void zeroRemainder(const Tile &tile);

  RescaledKernel &kernel;
  KernelBuilder &b;
  QuantizeKernel &columns;
  RescaledBytes bytes;
  TransposeTile transposed;
  /// Shared memory of the tile's columns: scales, the low bytes of their
  /// exponents, and the limits of 16 columns' each.
  Value scaleMemory, exponentMemory, limitMemory;
  /// The number of chunks that are quantized from the input, and their list.
  Value countMemory, listMemory;
};
} // namespace

void RescaledColumnsBuilder::build(Value lineTiles) {
  constexpr int64_t kScales = kTile * sizeof(float), kExponents = kTile,
                    kLimits = kTile / kColumnsOfLimits * 2 * kWordBytes;
  scaleMemory = b.allocateShared(kScales, "scales");
  exponentMemory = b.allocateShared(kExponents, "exponents");
  limitMemory = b.allocateShared(kLimits, "limits");
  countMemory = b.allocateShared(kWordBytes, "count");
  listMemory = b.allocateShared(kListBytes, "list");
  b.requestResidentBlocks(rescaled::kColumnBlocks,
                          transposed.getBytes() + kScales + kExponents +
                              kLimits + kWordBytes + kListBytes);
  Value columnTiles = b.ceilDiv(columns.sizes.parallel, kTile);
  // Blocks that run together read and write what lies together.
  Value workTilesOfPanel = b.mul(lineTiles, kPanel);
  b.forEachWorkTile(
      b.mul(lineTiles, columnTiles),
      [&](Value workTile) {
        Value firstOfPanel = b.mul(b.divU(workTile, workTilesOfPanel), kPanel);
        Value inPanel = b.remU(workTile, workTilesOfPanel);
        Value width = b.minS(b.sub(columnTiles, firstOfPanel), kPanel);
        Value lineTile = b.divU(inPanel, width);
        Value columnTile = b.add(firstOfPanel, b.remU(inPanel, width));
        Tile tile = createTile(lineTile, b.mul(columnTile, kTile),
                               b.equal(lineTile, b.sub(lineTiles, 1)));
        b.createIf(
            tile.isRemainder, [&] { zeroRemainder(tile); },
            [&] {
              IndexRange lines = tile.view.rows;
              b.createIf(
                  b.less(lines.low, lines.high), [&] { rescaleTile(tile); },
                  [&] { createScales(tile); });
            });
      },
      /*mostlyOne=*/true);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

FoundSegment RescaledColumnsBuilder::loadFoundTile(Value lineTile) {
  KernelBuilder::Step step(b, "load_found_tile");
  Value pointer = kernel.getFoundTile(lineTile);
  SmallVector<Value> words = b.unpackWords(
      b.load(b.getWordsType(), pointer, kVectorBytes, /*readOnly=*/true));
  Value firstTileRow =
      b.loadWord(b.offsetBytes(pointer, kVectorBytes), /*readOnly=*/true);
  return {b.widen(b.uniform(words[0])),
          b.widen(b.uniform(firstTileRow)),
          {b.widen(b.uniform(words[1])), b.widen(b.uniform(words[2])),
           b.widen(b.uniform(words[3]))}};
}

/// Tiles begin at multiples of 32 lines of the output, the first one of a
/// jagged segment at or before it. Empty segments have one, for their scales.
Tile RescaledColumnsBuilder::createTile(Value lineTile, Value firstColumn,
                                        Value isLast) {
  const QuantizeSizes<Value> &sizes = columns.sizes;
  Tile tile;
  tile.firstColumn = firstColumn;
  tile.isLast = isLast;
  if (!columns.problem.jagged) {
    Value perSegment = b.maxS(b.ceilDiv(sizes.reduction, kTile), b.i64(1));
    tile.segment = b.divU(lineTile, perSegment);
    Value inSegment = b.remU(lineTile, perSegment);
    tile.view = columns.createSegment(tile.segment);
    tile.firstLine = b.mul(inSegment, kTile);
    tile.isFirst = b.equal(inSegment, 0);
    tile.isRemainder = b.i1(false);
    tile.moved = b.i64(0);
    return tile;
  }
  auto [segment, firstTileRow, bounds] = loadFoundTile(lineTile);
  Value before = b.sub(b.mul(lineTile, kTile), firstTileRow);
  tile.segment = segment;
  tile.view = columns.createSegment(segment, bounds);
  tile.moved = b.sub(bounds.start, bounds.paddedStart);
  Value first = b.bitAnd(tile.view.rows.low, -rescaled::kLineAlignment);
  tile.firstLine = b.add(first, before);
  tile.isFirst = b.equal(before, 0);
  tile.isRemainder = b.equal(segment, sizes.segments);
  return tile;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

void RescaledColumnsBuilder::createScales(const Tile &tile) {
  KernelBuilder::Step step(b, "create_scales");
  // Threads may still read those of the tile before.
  b.createBarrier();
  b.createIf(b.less(b.getThread(), kTile), [&] {
    Value column = b.add(tile.firstColumn, b.getThread());
    Value exists = b.less(column, columns.sizes.parallel);
    Value known = b.minS(column, b.sub(columns.sizes.parallel, 1));
    Value scale = columns.math.createScale(b.loadWord(
        kernel.getMagnitude(tile.segment, known), /*readOnly=*/true));
    b.createIf(b.bitAnd(tile.isFirst, exists),
               [&] { columns.storeScale(tile.view, column, scale); });
    storeExponents(scale, b.getThread());
  });
  b.createIf(b.equal(b.getThread(), 0),
             [&] { b.storeWord(b.i32(0), countMemory); });
  b.createBarrier();
}

void RescaledColumnsBuilder::storeExponents(Value scale, Value column) {
  KernelBuilder::Step step(b, "store_exponents");
  b.storeWord(scale, b.offsetBytes(scaleMemory, b.mul(column, sizeof(float))));
  Value exponent = RescaledBytes::getExponent(
      b, b.bitcast(b.getI32Type(), scale), RescaledBytes::kNoColumn);
  b.store(b.truncate(b.getI8Type(), exponent),
          b.offsetBytes(exponentMemory, column), 1);
  Value least = exponent, largest = exponent;
  for (int64_t mask = 1; mask < kColumnsOfLimits; mask *= 2) {
    least = b.minS(least, b.shuffleXor(least, mask));
    largest = b.maxS(largest, b.shuffleXor(largest, mask));
  }
  b.createIf(b.equal(b.remU(column, kColumnsOfLimits), 0), [&] {
    Value limits = b.mul(b.divU(column, kColumnsOfLimits), 2 * kWordBytes);
    b.store(b.packWords({least, largest}), b.offsetBytes(limitMemory, limits),
            2 * kWordBytes);
  });
}

ColumnExponents RescaledColumnsBuilder::loadExponents(Value column) {
  KernelBuilder::Step step(b, "load_exponents");
  ColumnExponents result;
  result.words = b.unpackWords(b.load(
      b.getWordsType(), b.offsetBytes(exponentMemory, column), kVectorBytes));
  Value limits = b.mul(b.divU(column, kColumnsOfLimits), 2 * kWordBytes);
  SmallVector<Value> pair =
      b.unpackWords(b.load(VectorType::get(2, b.getI32Type()),
                           b.offsetBytes(limitMemory, limits), 2 * kWordBytes));
  result.least = pair[0];
  result.largest = pair[1];
  return result;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

std::pair<Value, Value>
RescaledColumnsBuilder::rescale(Value chunk, Value lineScale,
                                const ColumnExponents &exponents) {
  Value exponent =
      RescaledBytes::getExponent(b, lineScale, RescaledBytes::kNoLine);
  Value lineTerm = bytes.createLineTerm(exponent);
  Value normal = b.i32(RescaledBytes::kSigns);
  SmallVector<Value> rescaled;
  for (auto [word, ofColumns] :
       llvm::zip_equal(b.unpackWords(chunk), exponents.words)) {
    auto [result, isNormal] = bytes.createWord(word, ofColumns, lineTerm);
    normal = b.bitAnd(normal, isNormal);
    rescaled.push_back(result);
  }
  Value isNear =
      bytes.createIsNear(exponent, exponents.least, exponents.largest);
  return {b.packWords(rescaled),
          b.bitAnd(isNear, b.equal(normal, RescaledBytes::kSigns))};
}

SmallVector<Value> RescaledColumnsBuilder::loadInput(const Tile &tile,
                                                     Value line, Value inInput,
                                                     Value column) {
  Value first = b.add(tile.firstColumn, column);
  if (kernel.source) {
    SmallVector<Value> found = kernel.source->find(inInput);
    return kernel.source->compute(found, kernel.source->load(found, first));
  }
  Plane input = columns.getInputPlane(tile.view, Along::Columns);
  input.savesRegisters = true;
  return loadChunks(b, input, first, columns.getInputChunks(kOutputChunk), line,
                    {b.i64(0), columns.sizes.parallel});
}

Value RescaledColumnsBuilder::quantize(const Tile &tile, Value line,
                                       Value inInput, Value column) {
  SmallVector<Value> values =
      columns.math.unpackValues(loadInput(tile, line, inInput, column));
  return b.packWords(columns.math.createQuantizeOwn(
      values, loadSharedScales(b, scaleMemory, column, kOutputChunk)));
}

void RescaledColumnsBuilder::rescaleTile(const Tile &tile) {
  KernelBuilder::Step step(b, "rescale_tile");
  IndexRange lines = tile.view.rows;
  SegmentView ofLines = kernel.createLines(tile.segment);
  Plane quantized = kernel.lines.getOutputPlane(ofLines, Along::Rows);
  quantized.savesRegisters = true;

  Value column = transposed.getWriteRow();
  // Threads behind the last column repeat the last ones.
  Value lastChunk =
      b.sub(b.sub(columns.sizes.parallel, kOutputChunk), tile.firstColumn);
  column = b.minS(column, lastChunk);
  Value first = b.add(tile.firstLine, b.mul(transposed.getWriteWord(), kPack));
  SmallVector<Value> inInput, scales;
  for (int64_t i : llvm::seq(kPack)) {
    Value line = b.clamp(b.add(first, i), lines.low, b.sub(lines.high, 1));
    inInput.push_back(b.add(line, tile.moved));
  }
  SmallVector<Value> loaded =
      loadChunks(b, quantized, b.add(tile.firstColumn, column), /*chunks=*/1,
                 inInput, {b.i64(0), columns.sizes.parallel});
  for (Value line : inInput) {
    Value scale = b.mul(line, kernel.lines.sizes.scaleParallel);
    scales.push_back(
        b.loadWord(b.offsetBytes(ofLines.scales, b.mul(scale, sizeof(float))),
                   /*readOnly=*/true));
  }
  // While these are on their way.
  createScales(tile);
  ColumnExponents exponents = loadExponents(column);

  SmallVector<Value> chunks;
  for (int64_t i : llvm::seq(kPack)) {
    auto [words, isRight] = rescale(loaded[i], scales[i], exponents);
    Value line = b.add(first, i);
    Value isOwn =
        b.bitAnd(b.lessEqual(lines.low, line), b.less(line, lines.high));
    isOwn = b.bitAnd(isOwn, b.equal(column, transposed.getWriteRow()));
    b.createIf(b.bitAnd(isOwn, b.equal(isRight, 0)),
               [&] { listChunk(b.sub(line, tile.firstLine), column); });
    if (isPadded())
      words = b.select(b.less(line, lines.high), words, b.zeroWords());
    chunks.push_back(words);
  }
  transposed.write(b.i64(0), packAcross(b, chunks, b.getI8Type()));
  quantizeListed(tile);

  Plane output = columns.getOutputPlane(tile.view, Along::Rows);
  IndexRange written{lines.low, b.maxS(lines.high, tile.view.zeroRows.high)};
  transposed.forEachChunk(b.i64(0), [&](Value row, Value chunk, Value words) {
    Value other = b.add(tile.firstColumn, row);
    b.createIf(b.less(other, columns.sizes.parallel), [&] {
      storeChunk(b, output, b.add(tile.firstLine, b.mul(chunk, kOutputChunk)),
                 other, words, written);
    });
  });
}

//===----------------------------------------------------------------------===//
// Chunks that cannot be moved
//===----------------------------------------------------------------------===//

/// They are few in most tiles. Threads that found one would each wait for
/// memory and let the others of their subgroup wait, once for each line; listed
/// ones are dealt to all threads.
void RescaledColumnsBuilder::listChunk(Value lineInTile, Value column) {
  KernelBuilder::Step step(b, "list_chunk");
  Value place = LLVM::AtomicRMWOp::create(
      b, LLVM::AtomicBinOp::add, countMemory, b.i32(1),
      LLVM::AtomicOrdering::monotonic, b.getTarget().getBlockScope());
  Value chunk =
      b.add(b.mul(lineInTile, kChunksOfLine), b.divU(column, kOutputChunk));
  place = b.widen(place);
  b.storeWord(b.narrow(chunk),
              b.offsetBytes(listMemory, b.mul(place, kWordBytes)));
}

void RescaledColumnsBuilder::quantizeListed(const Tile &tile) {
  KernelBuilder::Step step(b, "quantize_listed");
  Value count = b.widen(b.loadWord(countMemory));
  auto quantizeChunk = [&](Value place) {
    Value chunk = b.widen(
        b.loadWord(b.offsetBytes(listMemory, b.mul(place, kWordBytes))));
    Value inTile = b.divU(chunk, kChunksOfLine);
    Value column = b.mul(b.remU(chunk, kChunksOfLine), kOutputChunk);
    Value line = b.add(tile.firstLine, inTile);
    Value words = quantize(tile, line, b.add(line, tile.moved), column);
    for (auto [i, byte] : llvm::enumerate(b.splitWords(words, b.getI8Type())))
      b.store(byte,
              transposed.getBytePointer(b.i64(0), b.add(column, i), inTile), 1);
  };
  b.createIf(b.isNonZero(count), [&] {
    b.createRareFor(b.getThread(), count, b.getNumThreads(), quantizeChunk);
    b.createBarrier();
  });
}

/// A tile of it, or all that is left.
void RescaledColumnsBuilder::zeroRemainder(const Tile &tile) {
  Plane output = columns.getOutputPlane(tile.view, Along::Rows);
  IndexRange rows = tile.view.zeroRows;
  Value chunk = b.remU(b.getThread(), kTile / kOutputChunk);
  Value row = b.divU(b.getThread(), kTile / kOutputChunk);
  const int64_t step = b.getNumThreads() / (kTile / kOutputChunk);
  Value end = b.select(tile.isLast, rows.high,
                       b.minS(rows.high, b.add(tile.firstLine, kTile)));
  Value endColumn =
      b.minS(b.add(tile.firstColumn, kTile), columns.sizes.parallel);
  b.createRareFor(b.add(tile.firstLine, b.mul(chunk, kOutputChunk)), end, kTile,
                  [&](Value first) {
                    b.createRareFor(b.add(tile.firstColumn, row), endColumn,
                                    step, [&](Value column) {
                                      zeroChunk(b, output, first, column, rows);
                                    });
                  });
}

void fp8moe::buildRescaledColumns(RescaledKernel &kernel, Value lineTiles) {
  RescaledColumnsBuilder(kernel).build(lineTiles);
}
