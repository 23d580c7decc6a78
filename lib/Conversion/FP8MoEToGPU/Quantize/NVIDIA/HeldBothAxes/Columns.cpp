//===- Columns.cpp - Columns of tiles that a block holds ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A thread takes four neighbouring columns of 16 lines, a word of each line,
// and makes a chunk of each column. Two threads beside each other have the two
// halves of a tile, so that they store whole sectors. The second one takes its
// lines in another order, four further or four before, which lie in other
// banks:
//
//   thread    0                  1
//   word 0    line 0             line 20
//   word 4    line 4             line 16
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"

#include "FP8MoEToGPU/Common/BitField.h"
#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::held_both_axes;

static constexpr int64_t kThreadLines = HeldBothAxesTile::kThreadLines;
static constexpr int64_t kThreadColumns = HeldBothAxesTile::kThreadColumns;
/// How far the lines of the second thread are exchanged.
static constexpr int64_t kExchanged = 4;
static_assert(kThreadLines == kOutputChunk);
static_assert(kThreadColumns == kWordBytes);

namespace {
/// Exponents of the scales of a thread's columns.
struct ThreadExponents {
  /// A byte each, and their limits, or what no line is near.
  Value word, least, largest;
};

class ColumnsBuilder {
public:
  ColumnsBuilder(Kernel &kernel, Value warp)
      : kernel(kernel), b(kernel.b), columns(kernel.operands.columns) {
    thread = b.add(b.mul(warp, nvidia::kWarpThreads), kernel.lane);
    half = b.bitAnd(thread, 1);
    isSecond = b.equal(half, 1);
    firstOfHalf = b.mul(half, kThreadLines);
  }

  void build();

private:
  /// The places of words 0 and 4 in a half whose lines begin at `first`, a
  /// pitch apart. All other words lie in constant distances from one of them.
  struct WordPlaces {
    Value first, exchanged;
    int64_t pitch;
  };
  WordPlaces getPlaces(Value first, int64_t pitch);
  Value getPlace(const WordPlaces &places, int64_t word);
  /// Bits of lines as those of words, and the reverse.
  Value exchangeBits(Value bits);
  ThreadExponents loadExponents(const Tile &tile, Value column);
  /// Where the half's lines begin at a column.
  Value getHeldHalf(const Tile &tile, Value column);

  /// A bit for each line of the half that there is.
  Value findLinesWithData(const Tile &tile);
  void rescaleColumns(const Tile &tile, Value linesWithData, Value column);
  /// Quantizes lines with these bits (i32) from the input, and puts them where
  /// the block holds the tile.
  void quantizeLines(const Tile &tile, Value bits, Value column);
  /// Four bytes of a line.
  Value quantize(const Tile &tile, Value line, ArrayRef<Value> scales,
                 Value column);

  Kernel &kernel;
  KernelBuilder &b;
  QuantizeKernel &columns;
  /// i32, and i1.
  Value thread, half, firstOfHalf;
  Value isSecond;
};
} // namespace

void ColumnsBuilder::build() {
  constexpr int64_t kThreads = HeldBothAxesTile::kColumnThreads;
  kernel.forEachTile({}, [&](const Tile &tile, ValueRange) {
    kernel.tileRing.createWaitFull(tile.slot);
    b.createIf(b.less(tile.low, tile.high), [&] {
      Value linesWithData = findLinesWithData(tile);
      b.createFor(
          b.mul(b.shiftRight(thread, 1), kThreadColumns),
          b.i32(kernel.getColumns()), kThreads / 2 * kThreadColumns,
          [&](Value column) { rescaleColumns(tile, linesWithData, column); });
    });
    createNamedBarrier(b, b.i32(kernel.tile.getTeams() + 2), kThreads);
    b.createIf(b.equal(thread, 0),
               [&] { kernel.tileRing.createRelease(tile.slot.stage); });
    return SmallVector<Value>();
  });
}

Value ColumnsBuilder::exchangeBits(Value bits) {
  constexpr int64_t kEven = 0x0F0F;
  Value up = b.shiftLeft(b.bitAnd(bits, kEven), kExchanged);
  Value down = b.bitAnd(b.shiftRight(bits, kExchanged), kEven);
  return b.select(isSecond, b.bitOr(up, down), bits);
}

ThreadExponents ColumnsBuilder::loadExponents(const Tile &tile, Value column) {
  constexpr int64_t kLargest = 0xFF;
  ThreadExponents result;
  result.word = b.load(
      b.getI32Type(),
      b.offsetBytes(kernel.getExponents(tile.slot.stage), column), kWordBytes);
  for (int64_t i : llvm::seq(kThreadColumns)) {
    Value exponent = b.bitAnd(b.shiftRight(result.word, i * 8), kLargest);
    result.least = i ? b.minS(result.least, exponent) : exponent;
    result.largest = i ? b.maxS(result.largest, exponent) : exponent;
  }
  // Zero, or a NaN.
  Value isSpecial =
      b.bitOr(b.equal(result.least, 0), b.equal(result.largest, kLargest));
  result.largest =
      b.select(isSpecial, b.i32(RescaledBytes::kNoColumn), result.largest);
  return result;
}

Value ColumnsBuilder::getHeldHalf(const Tile &tile, Value column) {
  return b.offsetBytes(kernel.getHeldLine(tile.slot.stage, firstOfHalf),
                       column);
}

ColumnsBuilder::WordPlaces ColumnsBuilder::getPlaces(Value first,
                                                     int64_t pitch) {
  Value distance = b.mul(half, kExchanged * pitch);
  return {b.offsetBytes(first, distance),
          b.offsetBytes(first, b.sub(b.i32(kExchanged * pitch), distance)),
          pitch};
}

Value ColumnsBuilder::getPlace(const WordPlaces &places, int64_t word) {
  if (word & kExchanged)
    return b.offsetBytes(places.exchanged, (word - kExchanged) * places.pitch);
  return b.offsetBytes(places.first, word * places.pitch);
}

Value ColumnsBuilder::findLinesWithData(const Tile &tile) {
  Value inHalf =
      b.clamp(b.sub(b.sub(tile.high, tile.low), firstOfHalf), 0, kThreadLines);
  return b.sub(b.shiftLeft(b.i32(1), inHalf), 1);
}

void ColumnsBuilder::rescaleColumns(const Tile &tile, Value linesWithData,
                                    Value column) {
  ThreadExponents exponents = loadExponents(tile, column);
  WordPlaces held =
      getPlaces(getHeldHalf(tile, column), kernel.memory.linePitch);
  WordPlaces scales = getPlaces(
      kernel.getLineScale(tile.slot.stage, firstOfHalf), 2 * kWordBytes);
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(kThreadLines))
    words.push_back(b.load(b.getI32Type(), getPlace(held, i), kWordBytes));
  Value wrong = b.i32(0);
  for (auto [i, word] : llvm::enumerate(words)) {
    SmallVector<Value> line =
        b.unpackWords(b.load(VectorType::get(2, b.getI32Type()),
                             getPlace(scales, i), 2 * kWordBytes));
    Value isNormal;
    std::tie(word, isNormal) =
        kernel.bytes.createMarkedWord(word, exponents.word, line[0]);
    Value isNear =
        kernel.bytes.createIsNear(line[1], exponents.least, exponents.largest);
    Value isRight =
        b.bitAnd(isNear, b.equal(b.bitAnd(isNormal, RescaledBytes::kSigns),
                                 RescaledBytes::kSigns));
    wrong = b.bitOr(wrong, b.select(isRight, b.i32(0), int64_t(1) << i));
  }
  wrong = b.bitAnd(wrong, exchangeBits(linesWithData));
  SmallVector<Type> types(words.size(), b.getI32Type());
  words = b.createIf(
      b.equal(wrong, 0), types, [&] { return words; },
      [&] {
        quantizeLines(tile, exchangeBits(wrong), column);
        SmallVector<Value> all;
        for (auto [i, word] : llvm::enumerate(words)) {
          Value other = b.load(b.getI32Type(), getPlace(held, i), kWordBytes);
          Value isWrong = BitField{int64_t(i)}.isSet(b, wrong);
          all.push_back(b.select(isWrong, other, word));
        }
        return all;
      });
  // Word 4 * i + j is of line j of those that are word i of a column.
  SmallVector<Value> lines;
  for (int64_t j : llvm::seq(kWordBytes)) {
    SmallVector<Value> ofLine;
    for (int64_t i : llvm::seq(kThreadLines / kWordBytes))
      ofLine.push_back(words[i * kWordBytes + j]);
    lines.push_back(b.packWords(ofLine));
  }
  SmallVector<Value> across = packAcross(b, lines, b.getI8Type());
  Plane output = columns.getOutputPlane(tile.view, Along::Rows);
  IndexRange written{b.i64(0), columns.sizes.reduction};
  Value first = kernel.widen(b.add(tile.low, firstOfHalf));
  for (int64_t i : llvm::seq(kThreadColumns)) {
    SmallVector<Value> chunk;
    for (int64_t word : llvm::seq(kThreadLines / kWordBytes))
      chunk.push_back(b.select(isSecond,
                               across[(word ^ 1) * kThreadColumns + i],
                               across[word * kThreadColumns + i]));
    storeChunk(b, output, first, kernel.widen(b.add(column, i)),
               b.packWords(chunk), written);
  }
}

void ColumnsBuilder::quantizeLines(const Tile &tile, Value bits, Value column) {
  SmallVector<Value> scales;
  for (int64_t i : llvm::seq(kThreadColumns))
    scales.push_back(columns.math.createScale(
        b.load(b.getI32Type(),
               kernel.operands.getMagnitude(tile.segment,
                                            kernel.widen(b.add(column, i))),
               kWordBytes)));
  scf::WhileOp::create(
      b, bits.getType(), bits,
      [&](OpBuilder &, Location, ValueRange left) {
        Value hasMore = b.compare(arith::CmpIPredicate::ne, left[0], 0);
        scf::ConditionOp::create(b, hasMore, left);
      },
      [&](OpBuilder &, Location, ValueRange left) {
        Value line = LLVM::CountTrailingZerosOp::create(
            b, b.getI32Type(), left[0], /*is_zero_poison=*/true);
        b.store(quantize(tile, line, scales, column),
                b.offsetBytes(getHeldHalf(tile, column),
                              b.mul(line, kernel.memory.linePitch)),
                kWordBytes);
        scf::YieldOp::create(b, b.bitAnd(left[0], b.sub(left[0], 1)));
      });
}

Value ColumnsBuilder::quantize(const Tile &tile, Value line,
                               ArrayRef<Value> scales, Value column) {
  Plane input = columns.getInputPlane(tile.view, Along::Columns);
  const int64_t bytes = kThreadColumns * columns.math.getInputBytes();
  Value inSegment = kernel.widen(b.add(b.add(tile.low, firstOfHalf), line));
  Value words = b.load(
      VectorType::get(bytes / kWordBytes, b.getI32Type()),
      createElementPointer(b, input, kernel.widen(column), inSegment), bytes,
      /*readOnly=*/true);
  return columns.math
      .createQuantizeOwn(columns.math.unpackValues(words), scales)
      .front();
}

void held_both_axes::buildColumns(Kernel &kernel, Value warp) {
  ColumnsBuilder(kernel, warp).build();
}
