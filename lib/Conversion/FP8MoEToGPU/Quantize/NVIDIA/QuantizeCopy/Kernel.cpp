//===- Kernel.cpp - Quantized lines and their transpose -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block takes 32 or 64 neighbouring lines, and the grid has a block for all
// of these: a loop over them would take registers. Warps share a line, which
// they hold in registers: they look for its largest magnitude, quantize it, and
// store it to memory and to shared memory. When all lines are there, threads
// take 4 columns of 16 lines each, and store them as 16 bytes of 4 columns of
// the copy:
//
//   shared memory                        copy
//   line  0   abcd....    thread 0       a a a ... (lines 0 to 15)
//   line  1   abcd....    (4 columns)    b b b ...
//   ...                                  c c c ...
//   line 15   abcd....                   d d d ...
//
// Its neighbours take the other lines, so that two of them fill a sector.
// Groups that are padded in the copy begin with whole tiles there, and what
// lies behind their lines is zero.
//
// The blocks of a cluster take the same lines, and a part of the columns each.
// They tell each other what they find in a line.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/QuantizeCopy/Kernel.h"

#include "FP8MoEToGPU/Common/SegmentBounds.h"
#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/NVIDIA/Cluster.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Lines of a thread's part of the copy, and its columns.
static constexpr int64_t kPartLines = kOutputChunk;
static constexpr int64_t kPartColumns = kWordBytes;
/// Slots for what warps find in lines: a slow one may still read those of the
/// lines before.
static constexpr int64_t kLineSlots = 2;

namespace {
/// A tile, whose lines are counted from its first one: what is kept while
/// lines are quantized takes few registers so.
struct LineTile {
  /// Lines of input and data by their columns, and of the copy.
  Plane input, output, copy;
  Value scales;
  /// How many lines have data (in i32, at most 0 where there are none), how
  /// many of these the copy has, and how many lines it has with its padding.
  Value withData, inCopy, written;
};

/// A line that a team has, all in i64: its number in the tile, and the next
/// one with data if it has none; the team's turn.
struct Line {
  Value inTile, number, turn;
};

class QuantizeCopyBuilder {
public:
  QuantizeCopyBuilder(QuantizeCopyKernel &kernel, const QuantizeCopyTile &tile)
      : b(kernel.lines.b), lines(kernel.lines), copy(kernel.copy), tile(tile),
        warp(b.getSubgroup()) {
    Value block = b.getBlock();
    tileNumber = b.divU(block, tile.cluster);
    rank = b.remU(block, tile.cluster);
  }

  void build();

private:
  int64_t getWarps() const { return tile.threads / b.getSubgroupSize(); }
  int64_t getTeams() const { return getWarps() / tile.lineWarps; }
  /// Parts of a column of the copy.
  int64_t countParts() const { return tile.lines / kPartLines; }
  bool isPadded() const { return copy.problem.jagged; }
  bool isCluster() const { return tile.cluster > 1; }
  bool isLineShared() const { return isCluster() || tile.lineWarps > 1; }

  LineTile createTile();
  void quantizeLines(const LineTile &lineTile);
  void quantizeLine(const LineTile &lineTile, const Line &line);
  void quantizeUnalignedLine(const LineTile &lineTile, const Line &line);
  /// The first column of one of the thread's chunks, or of the last one there
  /// is.
  Value getColumn(int64_t chunk);
  /// Where the magnitude that a warp of a block of the cluster found in a
  /// line of some turn is, in each block that has the line.
  Value getMagnitude(Value turn, Value rank, Value ofWarp);
  void sendMagnitude(Value magnitude, Value turn);
  /// The largest magnitude of a line, from those of the warp's part of it.
  Value combineWarps(Value magnitude, Value turn);
  Value createScale(const LineTile &lineTile, const Line &line, Value largest);
  /// The FP8 bytes of a chunk of the input.
  Value convert(ArrayRef<Value> chunk, Value scale);
  void keep(const LineTile &lineTile, const Line &line, Value column,
            Value bytes);
  void storeCopy(const LineTile &lineTile);
  void zeroCopy(const LineTile &lineTile);

  /// 16 bytes of a line at a column; or a word, which lies in such a chunk.
  Value getShared(Value line, Value column);

  KernelBuilder &b;
  QuantizeKernel &lines, &copy;
  const QuantizeCopyTile &tile;
  Value warp;
  /// The number of the tile, and of the block among those that have it.
  Value tileNumber, rank;
  /// Magnitudes by slot, block and warp.
  Value magnitudes;
};
} // namespace

void QuantizeCopyBuilder::build() {
  if (isLineShared())
    magnitudes =
        b.allocateShared(kLineSlots * tile.cluster * getWarps() * kWordBytes,
                         "magnitudes_of_lines");
  LineTile lineTile = createTile();
  b.createIf(
      b.less(b.i32(0), lineTile.withData),
      [&] {
        // Nobody writes to a block that has not begun.
        if (isCluster())
          createClusterBarrier(b);
        quantizeLines(lineTile);
        b.createBarrier();
        storeCopy(lineTile);
      },
      [&] { zeroCopy(lineTile); });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

LineTile QuantizeCopyBuilder::createTile() {
  Value segment = b.i64(0), firstLine, moved = b.i64(0), endOfData;
  SegmentView view;
  if (isPadded()) {
    // Groups begin at multiples of the padding, which is so many tiles.
    const int64_t padding = copy.problem.outputPadding;
    const int64_t tiles = padding / tile.lines;
    SegmentTiling tiling{padding};
    tiling.outputPadding = padding;
    auto [group, firstRow, bounds] =
        findSegment(b, copy.getOffsets(), b.divU(tileNumber, tiles),
                    copy.sizes.segments, copy.sizes.reduction, tiling);
    view = copy.createSegment(group, bounds);
    firstLine = b.add(bounds.paddedStart,
                      b.sub(b.mul(tileNumber, tile.lines), firstRow));
    moved = b.sub(bounds.start, bounds.paddedStart);
    // Lines of no group have data, but are no part of the copy.
    endOfData = b.select(b.equal(group, copy.sizes.segments),
                         b.sub(copy.sizes.reduction, moved), view.rows.high);
  } else {
    Value perSegment = b.maxS(b.ceilDiv(copy.sizes.reduction, tile.lines), 1);
    segment = b.divU(tileNumber, perSegment);
    view = copy.createSegment(segment);
    firstLine = b.mul(b.remU(tileNumber, perSegment), tile.lines);
    endOfData = view.rows.high;
  }
  SegmentView ofLines = lines.createSegment(segment);
  Value inInput = b.add(firstLine, moved);
  LineTile result{lines.getInputPlane(ofLines, Along::Rows),
                  lines.getOutputPlane(ofLines, Along::Rows),
                  copy.getOutputPlane(view, Along::Rows),
                  Value(),
                  Value(),
                  Value(),
                  Value()};
  result.input.savesRegisters = true;
  Value firstColumn = b.mul(rank, tile.columns);
  for (Plane *plane : {&result.input, &result.output})
    plane->base = createElementPointer(b, *plane, firstColumn, inInput);
  result.copy.base =
      createElementPointer(b, result.copy, firstLine, firstColumn);
  result.scales = b.offsetBytes(
      ofLines.scales,
      b.mul(b.mul(inInput, lines.sizes.scaleParallel), sizeof(float)));
  auto countUpTo = [&](Value end) {
    return b.truncate(b.getI32Type(),
                      b.clamp(b.sub(end, firstLine), 0, tile.lines));
  };
  result.withData = countUpTo(endOfData);
  result.inCopy = countUpTo(view.rows.high);
  result.written = countUpTo(b.maxS(view.rows.high, view.zeroRows.high));
  return result;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

/// Threads read a word of all parts at once, which have theirs in other banks.
Value QuantizeCopyBuilder::getShared(Value line, Value column) {
  constexpr int64_t kBankRow = 128;
  Value shift = b.mul(b.divU(line, kPartLines), kBankRow / countParts());
  Value place = b.add(b.mul(line, tile.getPitch()), b.bitXor(column, shift));
  return b.offsetBytes(b.getDynamicShared(), place);
}

/// Neighbouring threads have neighbouring chunks.
Value QuantizeCopyBuilder::getColumn(int64_t chunk) {
  const int64_t together = tile.lineWarps * b.getSubgroupSize();
  Value thread = b.add(b.mul(b.remU(warp, tile.lineWarps), b.getSubgroupSize()),
                       b.getLane());
  Value column =
      b.add(b.mul(thread, kOutputChunk), chunk * together * kOutputChunk);
  if ((chunk + 1) * together * kOutputChunk <= tile.columns)
    return column;
  return b.minS(column, b.i64(tile.columns - kOutputChunk));
}

Value QuantizeCopyBuilder::getMagnitude(Value turn, Value rank, Value ofWarp) {
  Value slot = b.mul(b.bitAnd(turn, kLineSlots - 1), tile.cluster);
  Value ofBlock = b.mul(b.add(slot, rank), getWarps());
  return b.offsetBytes(magnitudes, b.mul(b.add(ofBlock, ofWarp), kWordBytes));
}

/// A lane for each block of the cluster.
void QuantizeCopyBuilder::sendMagnitude(Value magnitude, Value turn) {
  Value lane = b.getLane();
  b.createIf(b.less(lane, tile.cluster), [&] {
    Value pointer = getMagnitude(turn, rank, warp);
    if (isCluster())
      pointer =
          createClusterPointer(b, pointer, b.truncate(b.getI32Type(), lane));
    b.store(magnitude, pointer, kWordBytes);
  });
}

Value QuantizeCopyBuilder::combineWarps(Value magnitude, Value turn) {
  magnitude = b.maxOfLanes(magnitude);
  if (!isLineShared())
    return magnitude;
  sendMagnitude(magnitude, turn);
  if (isCluster())
    createClusterBarrier(b);
  else
    b.createBarrier();
  Value first = b.sub(warp, b.remU(warp, tile.lineWarps)), all;
  for (int64_t block : llvm::seq(tile.cluster))
    for (int64_t other : llvm::seq(tile.lineWarps)) {
      Value found = b.load(
          b.getI32Type(), getMagnitude(turn, b.i64(block), b.add(first, other)),
          kWordBytes);
      all = all ? b.maxU(all, found) : found;
    }
  return all;
}

Value QuantizeCopyBuilder::createScale(const LineTile &lineTile,
                                       const Line &line, Value largest) {
  Value scale = lines.math.createScale(
      combineWarps(lines.math.createLargest(largest), line.turn));
  Value isFirst = b.bitAnd(b.equal(b.remU(warp, tile.lineWarps), 0),
                           b.equal(b.getLane(), 0));
  if (isCluster())
    isFirst = b.bitAnd(isFirst, b.equal(rank, 0));
  b.createIf(isFirst, [&] {
    Value offset =
        b.mul(b.mul(line.number, lines.sizes.scaleParallel), sizeof(float));
    b.store(scale, b.offsetBytes(lineTile.scales, offset), sizeof(float));
  });
  return scale;
}

Value QuantizeCopyBuilder::convert(ArrayRef<Value> chunk, Value scale) {
  SmallVector<Value> values;
  for (Value words : chunk)
    llvm::append_range(values, lines.math.unpackValues(words));
  return b.packWords(lines.math.createQuantizeOwn(
      values, SmallVector<Value>(values.size(), scale)));
}

void QuantizeCopyBuilder::keep(const LineTile &lineTile, const Line &line,
                               Value column, Value bytes) {
  Value isInCopy =
      b.less(b.truncate(b.getI32Type(), line.inTile), lineTile.inCopy);
  b.store(b.select(isInCopy, bytes, b.zeroWords()),
          getShared(line.inTile, column), kVectorBytes);
}

/// Holds the line.
void QuantizeCopyBuilder::quantizeLine(const LineTile &lineTile,
                                       const Line &line) {
  const int64_t words = lines.getInputChunks(kOutputChunk);
  SmallVector<Value> held;
  for (int64_t i : llvm::seq(tile.chunks)) {
    Value pointer =
        createElementPointer(b, lineTile.input, getColumn(i), line.number);
    for (int64_t word : llvm::seq(words))
      held.push_back(b.load(b.getWordsType(),
                            b.offsetBytes(pointer, word * kVectorBytes),
                            kVectorBytes, /*readOnly=*/true));
  }
  Value largest = b.zeroWords();
  for (Value chunk : held)
    largest = lines.math.createAbsMax(largest, chunk);
  Value scale = createScale(lineTile, line, largest);
  for (int64_t i : llvm::seq(tile.chunks)) {
    Value bytes = convert(ArrayRef(held).slice(i * words, words), scale);
    Value column = getColumn(i);
    b.store(bytes,
            createElementPointer(b, lineTile.output, column, line.number),
            kVectorBytes);
    keep(lineTile, line, column, bytes);
  }
}

/// Reads the line twice, in loops that take few registers.
void QuantizeCopyBuilder::quantizeUnalignedLine(const LineTile &lineTile,
                                                const Line &line) {
  IndexRange all{b.i64(0), b.i64(tile.columns)};
  const int64_t together = tile.lineWarps * b.getSubgroupSize() * kOutputChunk;
  auto forEachChunk =
      [&](ValueRange init,
          function_ref<SmallVector<Value>(Value, ArrayRef<Value>, ValueRange)>
              body) {
        return b.createRareFor(getColumn(0), b.i64(tile.columns), together,
                               init, [&](Value column, ValueRange carried) {
                                 SmallVector<Value> chunk = loadChunks(
                                     b, lineTile.input, column,
                                     lines.getInputChunks(kOutputChunk),
                                     line.number, all);
                                 return body(column, chunk, carried);
                               });
      };
  Value largest = forEachChunk(b.zeroWords(), [&](Value, ArrayRef<Value> chunk,
                                                  ValueRange carried) {
                    Value result = carried[0];
                    for (Value words : chunk)
                      result = lines.math.createAbsMax(result, words);
                    return SmallVector<Value>{result};
                  }).front();
  Value scale = createScale(lineTile, line, largest);
  forEachChunk({}, [&](Value column, ArrayRef<Value> chunk, ValueRange) {
    Value bytes = convert(chunk, scale);
    storeChunk(b, lineTile.output, column, line.number, bytes, all);
    keep(lineTile, line, column, bytes);
    return SmallVector<Value>();
  });
}

/// Teams of warps take lines in turns. Behind the last line they repeat it,
/// and the copy has zeros.
void QuantizeCopyBuilder::quantizeLines(const LineTile &lineTile) {
  Value last = b.sub(lineTile.withData, 1);
  Value team = b.divU(warp, tile.lineWarps);
  b.createRareFor(
      b.i64(0), b.i64(tile.lines / getTeams()), 1, {},
      [&](Value turn, ValueRange) {
        Value inTile = b.add(b.mul(turn, getTeams()), team);
        Value known = b.minS(b.truncate(b.getI32Type(), inTile), last);
        Line line{inTile, b.zeroExtend(b.getI64Type(), known), turn};
        b.createIf(
            b.bitAnd(lineTile.input.vectorizable, lineTile.output.vectorizable),
            [&] { quantizeLine(lineTile, line); },
            [&] { quantizeUnalignedLine(lineTile, line); });
        return SmallVector<Value>();
      });
}

//===----------------------------------------------------------------------===//
// Copy
//===----------------------------------------------------------------------===//

void QuantizeCopyBuilder::storeCopy(const LineTile &lineTile) {
  IndexRange written{b.i64(0), b.zeroExtend(b.getI64Type(), lineTile.written)};
  const int64_t parts = tile.columns / kPartColumns * countParts();
  b.createFor(b.getThread(), b.i64(parts), tile.threads, [&](Value part) {
    Value firstLine = b.mul(b.remU(part, countParts()), kPartLines);
    Value column = b.mul(b.divU(part, countParts()), kPartColumns);
    SmallVector<Value> words;
    for (int64_t line : llvm::seq(kPartLines))
      words.push_back(b.load(b.getI32Type(),
                             getShared(b.add(firstLine, line), column),
                             kWordBytes));
    // Four lines at a time, one after the other in each of these.
    SmallVector<Value> interleaved;
    constexpr int64_t kFours = kPartLines / kWordBytes;
    for (int64_t line : llvm::seq(kWordBytes)) {
      SmallVector<Value> ofLine;
      for (int64_t four : llvm::seq(kFours))
        ofLine.push_back(words[four * kWordBytes + line]);
      interleaved.push_back(b.packWords(ofLine));
    }
    SmallVector<Value> across = packAcross(b, interleaved, b.getI8Type());
    for (int64_t i : llvm::seq(kPartColumns)) {
      SmallVector<Value> ofColumn;
      for (int64_t four : llvm::seq(kFours))
        ofColumn.push_back(across[four * kPartColumns + i]);
      storeChunk(b, lineTile.copy, firstLine, b.add(column, i),
                 b.packWords(ofColumn), written);
    }
    return SmallVector<Value>();
  });
}

/// A tile without lines: padding, or what lies behind all groups.
void QuantizeCopyBuilder::zeroCopy(const LineTile &lineTile) {
  if (!isPadded())
    return;
  IndexRange written{b.i64(0), b.zeroExtend(b.getI64Type(), lineTile.written)};
  b.createRareFor(b.getThread(), b.i64(tile.columns * countParts()),
                  tile.threads, {}, [&](Value part, ValueRange) {
                    Value firstLine =
                        b.mul(b.remU(part, countParts()), kPartLines);
                    zeroChunk(b, lineTile.copy, firstLine,
                              b.divU(part, countParts()), written);
                    return SmallVector<Value>();
                  });
}

gpu::GPUFuncOp fp8moe::buildQuantizeCopy(Location loc, gpu::GPUModuleOp module,
                                         StringRef name,
                                         const AxisQuantizeProblem &lines,
                                         const AxisQuantizeProblem &copy,
                                         const QuantizeCopyTile &tile,
                                         const TargetHooks &hooks) {
  constexpr unsigned kPointers = 3;
  KernelSignature signature;
  signature.pointers = 2 * kPointers + copy.jagged;
  signature.sizes = countDynamic(lines.sizes) + countDynamic(copy.sizes);
  signature.hasBlockCount = false;
  signature.threads = tile.threads;
  signature.cluster = tile.cluster;
  KernelBuilder b(loc, module, name, signature, hooks);
  QuantizeCopyKernel kernel{
      QuantizeKernel(b, lines),
      QuantizeKernel(b, copy, kPointers, countDynamic(lines.sizes))};
  QuantizeCopyBuilder(kernel, tile).build();
  return b.getKernel();
}
