//===- RescaledLines.cpp - Quantized lines and magnitudes of columns ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A block takes neighbouring lines, one after the other. Its threads hold the
// line at hand in registers, and load the next one meanwhile:
//
//   line     chunk 0 | chunk 1 | ... | chunk T | chunk T + 1 | ...
//   thread      0         1      ...      0          1
//
// So a thread has the same columns of all lines, whose largest magnitudes it
// collects in registers. Where its lines, or those of a segment, end, blocks
// combine them in memory.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledBothAxes.h"

#include "Kernels/Emit/SegmentBounds.h"
#include "Kernels/Quantize/RescaledBothAxes/RescaledTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Magnitudes that a thread passes on at a time: 16 bytes.
static constexpr int64_t kPassed = kVectorBytes / kWordBytes;
/// Slots for what subgroups find in a line: a slow one may still read those of
/// the line before.
static constexpr int64_t kLineSlots = 2;

namespace {
class RescaledLinesBuilder {
public:
  RescaledLinesBuilder(RescaledKernel &kernel, RescaledBothAxesTileAttr tile)
      : kernel(kernel), b(kernel.getBuilder()), math(kernel.lines.math),
        tile(tile) {}

  void build(Value linesPerTile, Value lineTiles);

private:
  int64_t countSubgroups() const {
    return tile.getThreads() / b.getSubgroupSize();
  }
  Value getNumColumns() { return kernel.columns.sizes.parallel; }
  /// The first column of a chunk of the thread, or of the last one there is.
  Value getChunkColumn(int64_t chunk);

  /// Finds the segment of a tile of lines, for the kernel of columns.
  void storeFoundTile(Value lineTile);
  /// The segment that a line of those of all segments is in, and its end.
  std::pair<Value, Value> findSegmentOf(Value line);
  void quantizeLines(Value segment, IndexRange lines);
  /// Values that a source needs before it can load a line.
  SmallVector<Value> findLine(Value line);
  SmallVector<Value> loadLine(const Plane &input, Value line, ValueRange found);
  /// The thread's chunks of a line that was loaded.
  SmallVector<Value> computeLine(ValueRange found, ValueRange loaded);
  void storeLine(const Plane &output, Value line, ValueRange chunks,
                 Value scale);
  /// The largest magnitude of the block's threads, of a line.
  Value combineThreads(Value magnitude, Value line);
  void postMagnitudes(Value segment, ValueRange largest);

  RescaledKernel &kernel;
  KernelBuilder &b;
  QuantizeMath &math;
  RescaledBothAxesTileAttr tile;
  /// Shared memory: magnitudes of lines by slot and subgroup, and those of
  /// columns that threads pass on.
  Value lineMemory, columnMemory;
};
} // namespace

void RescaledLinesBuilder::build(Value linesPerTile, Value lineTiles) {
  lineMemory = b.allocateShared(kLineSlots * countSubgroups() * kWordBytes,
                                "magnitudes_of_lines");
  columnMemory = b.allocateShared(tile.getThreads() * kVectorBytes,
                                  "magnitudes_of_columns");
  const QuantizeSizes<Value> &sizes = kernel.columns.sizes;
  bool jagged = kernel.columns.problem.jagged;
  if (jagged)
    b.forEachWorkTile(lineTiles, [&](Value tile) { storeFoundTile(tile); });
  Value total =
      jagged ? sizes.reduction : b.mul(sizes.segments, sizes.reduction);
  b.forEachWorkTile(b.ceilDiv(total, linesPerTile), [&](Value workTile) {
    Value low = b.mul(workTile, linesPerTile);
    Value high = b.minS(b.add(low, linesPerTile), total);
    // Segment by segment.
    b.createWhile(
        low, [&](ValueRange line) { return b.less(line[0], high); },
        [&](ValueRange line) {
          auto [segment, end] = findSegmentOf(b.named("line", line[0]));
          end = b.minS(end, high);
          IndexRange lines{line[0], end};
          if (!jagged) {
            Value first = b.mul(segment, sizes.reduction);
            lines = {b.sub(line[0], first), b.sub(end, first)};
          }
          quantizeLines(segment, lines);
          return SmallVector<Value>{end};
        });
  });
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

void RescaledLinesBuilder::storeFoundTile(Value lineTile) {
  KernelBuilder::Step step(b, "store_found_tile");
  const AxisQuantizeProblem &problem = kernel.columns.problem;
  SegmentTiling tiling{rescaled::kTile, /*emptyHaveTile=*/true};
  tiling.outputPadding = problem.outputPadding;
  if (problem.outputPadding <= 1)
    tiling.alignment = rescaled::kLineAlignment;
  FoundSegment found = findSegment(b, kernel.columns.getOffsets(), lineTile,
                                   kernel.columns.sizes.segments,
                                   kernel.columns.sizes.reduction, tiling);
  Value pointer = kernel.getFoundTile(lineTile);
  b.createIf(b.equal(b.getThread(), 0), [&] {
    b.store(b.packWords({b.narrow(found.index), b.narrow(found.bounds.start),
                         b.narrow(found.bounds.length),
                         b.narrow(found.bounds.paddedStart)}),
            pointer, kVectorBytes);
    b.storeWord(b.narrow(found.firstTileRow),
                b.offsetBytes(pointer, kVectorBytes));
  });
}

std::pair<Value, Value> RescaledLinesBuilder::findSegmentOf(Value line) {
  const QuantizeSizes<Value> &sizes = kernel.columns.sizes;
  if (!kernel.columns.problem.jagged) {
    Value segment = b.divU(line, sizes.reduction);
    return {segment, b.mul(b.add(segment, 1), sizes.reduction)};
  }
  auto [segment, firstTileRow, bounds] =
      findSegment(b, kernel.columns.getOffsets(), line, sizes.segments,
                  sizes.reduction, {/*rows=*/1});
  // Behind the last segment there may be lines of none.
  Value end = b.select(b.equal(segment, sizes.segments), sizes.reduction,
                       b.add(bounds.start, bounds.length));
  return {segment, end};
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

Value RescaledLinesBuilder::getChunkColumn(int64_t chunk) {
  Value column =
      b.mul(b.add(b.getThread(), chunk * tile.getThreads()), kOutputChunk);
  return b.named("column",
                 b.minS(column, b.sub(getNumColumns(), kOutputChunk)));
}

SmallVector<Value> RescaledLinesBuilder::findLine(Value line) {
  return kernel.source ? kernel.source->find(line) : SmallVector<Value>();
}

SmallVector<Value> RescaledLinesBuilder::loadLine(const Plane &input,
                                                  Value line,
                                                  ValueRange found) {
  KernelBuilder::Step step(b, "load_line");
  SmallVector<Value> chunks;
  if (kernel.source) {
    for (int64_t i : llvm::seq(tile.getChunks()))
      llvm::append_range(chunks, kernel.source->load(found, getChunkColumn(i)));
    return chunks;
  }
  for (int64_t i : llvm::seq(tile.getChunks()))
    llvm::append_range(chunks,
                       loadChunks(b, input, getChunkColumn(i),
                                  kernel.lines.getInputChunks(kOutputChunk),
                                  line, {b.i64(0), getNumColumns()}));
  return chunks;
}

SmallVector<Value> RescaledLinesBuilder::computeLine(ValueRange found,
                                                     ValueRange loaded) {
  KernelBuilder::Step step(b, "compute_line");
  if (!kernel.source)
    return loaded;
  const size_t perChunk = loaded.size() / tile.getChunks();
  SmallVector<Value> chunks;
  for (int64_t i : llvm::seq(tile.getChunks()))
    llvm::append_range(
        chunks,
        kernel.source->compute(found, loaded.slice(i * perChunk, perChunk)));
  return chunks;
}

/// Threads that repeat the last chunk store it again.
void RescaledLinesBuilder::storeLine(const Plane &output, Value line,
                                     ValueRange chunks, Value scale) {
  KernelBuilder::Step step(b, "store_line");
  size_t perChunk = chunks.size() / tile.getChunks();
  SmallVector<Value> scales(kOutputChunk, scale);
  for (int64_t i : llvm::seq(tile.getChunks())) {
    Value words =
        math.quantizeChunks(chunks.slice(i * perChunk, perChunk), scales);
    storeChunk(b, output, getChunkColumn(i), line, words,
               {b.i64(0), getNumColumns()});
  }
}

Value RescaledLinesBuilder::combineThreads(Value magnitude, Value line) {
  KernelBuilder::Step step(b, "combine_threads");
  magnitude = b.maxOfLanes(magnitude);
  if (countSubgroups() == 1)
    return magnitude;
  Value slot = b.mul(b.bitAnd(line, kLineSlots - 1), countSubgroups());
  auto getPointer = [&](Value subgroup) {
    return b.offsetBytes(lineMemory, b.mul(b.add(slot, subgroup), kWordBytes));
  };
  b.createIf(b.equal(b.getLane(), 0),
             [&] { b.storeWord(magnitude, getPointer(b.getSubgroup())); });
  b.createBarrier();
  Value other = b.minS(b.getLane(), b.i64(countSubgroups() - 1));
  return b.maxOfLanes(b.loadWord(getPointer(other)));
}

void RescaledLinesBuilder::quantizeLines(Value segment, IndexRange lines) {
  SegmentView view = kernel.createLines(segment);
  Plane input = kernel.lines.getInputPlane(view, Along::Rows);
  Plane output = kernel.lines.getOutputPlane(view, Along::Rows);
  input.savesRegisters = true;
  Value last = b.sub(lines.high, 1);
  // The loop carries magnitudes of columns, what the source has found of this
  // line and of the next one, and this line as it was loaded.
  const size_t held =
      tile.getChunks() * kernel.lines.getInputChunks(kOutputChunk);
  SmallVector<Value> init(held, b.zeroWords());
  SmallVector<Value> found = findLine(lines.low);
  llvm::append_range(init, found);
  llvm::append_range(init, findLine(b.minS(b.add(lines.low, 1), last)));
  llvm::append_range(init, loadLine(input, lines.low, found));
  const size_t finds = found.size();
  SmallVector<Value> results = b.createFor(
      lines.low, lines.high, 1, init, [&](Value line, ValueRange carried) {
        ValueRange foundNext = carried.slice(held + finds, finds);
        SmallVector<Value> loadedNext =
            loadLine(input, b.minS(b.add(line, 1), last), foundNext);
        SmallVector<Value> foundAfter = findLine(b.minS(b.add(line, 2), last));
        SmallVector<Value> chunks = computeLine(
            carried.slice(held, finds), carried.drop_front(held + 2 * finds));
        SmallVector<Value> next;
        Value ofLine = b.zeroWords();
        for (auto [chunk, ofColumns] :
             llvm::zip_equal(chunks, carried.take_front(held))) {
          ofLine = math.createAbsMax(ofLine, chunk);
          next.push_back(math.createAbsMax(ofColumns, chunk));
        }
        for (Value magnitudes : carried.take_front(held))
          b.named("column_magnitudes", magnitudes);
        for (Value words : carried.drop_front(held + 2 * finds))
          b.named("loaded", words);
        b.named("line", line);
        Value scale = b.named(
            "line_scale",
            math.createScale(combineThreads(math.createLargest(ofLine), line)));
        b.createIf(b.equal(b.getThread(), 0),
                   [&] { kernel.lines.storeScale(view, line, scale); });
        storeLine(output, line, chunks, scale);
        llvm::append_range(next, foundNext);
        llvm::append_range(next, foundAfter);
        llvm::append_range(next, loadedNext);
        return next;
      });
  auto post = [&] {
    postMagnitudes(segment, ArrayRef(results).take_front(held));
  };
  // Lines behind the last segment have no scales of columns. The next lines may
  // begin with the slot that threads still read.
  b.createIf(b.less(segment, kernel.columns.sizes.segments), post,
             [&] { b.createBarrier(); });
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Threads exchange what they have four columns at a time, so that neighbouring
/// ones send neighbouring columns to memory.
void RescaledLinesBuilder::postMagnitudes(Value segment, ValueRange largest) {
  KernelBuilder::Step step(b, "post_magnitudes");
  const size_t perChunk = largest.size() / tile.getChunks();
  for (auto [index, words] : llvm::enumerate(largest)) {
    SmallVector<Value> bits = math.unpackMagnitudes(words);
    int64_t chunk = index / perChunk;
    int64_t first = (index % perChunk) * bits.size();
    for (size_t i = 0; i < bits.size(); i += kPassed) {
      b.createBarrier();
      b.store(b.packWords(ArrayRef(bits).slice(i, kPassed)),
              b.offsetBytes(columnMemory, b.mul(b.getThread(), kVectorBytes)),
              kVectorBytes);
      b.createBarrier();
      for (int64_t turn : llvm::seq(kPassed)) {
        Value word = b.add(b.getThread(), turn * tile.getThreads());
        Value owner = b.add(b.divU(word, kPassed), chunk * tile.getThreads());
        Value column = b.add(b.add(b.mul(owner, kOutputChunk), first + i),
                             b.remU(word, kPassed));
        b.createIf(b.less(column, getNumColumns()), [&] {
          Value pointer = kernel.getMagnitude(segment, column);
          Value magnitude =
              b.loadWord(b.offsetBytes(columnMemory, b.mul(word, kWordBytes)));
          // Most blocks find that another one has had a larger magnitude, for
          // which they need no atomic operation.
          Value isLarger = b.compare(arith::CmpIPredicate::ugt, magnitude,
                                     b.loadRelaxed(pointer));
          b.createIf(isLarger, [&] {
            LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, pointer,
                                      magnitude,
                                      LLVM::AtomicOrdering::monotonic,
                                      b.getTarget().getDeviceScope());
          });
        });
      }
    }
  }
}

void fp8moe::buildRescaledLines(RescaledKernel &kernel,
                                RescaledBothAxesTileAttr tile,
                                Value linesPerTile, Value lineTiles) {
  KernelBuilder &b = kernel.getBuilder();
  b.requestResidentBlocks(tile.getBlocks());
  RescaledLinesBuilder(kernel, tile).build(linesPerTile, lineTiles);
}
