//===- Lines.cpp - Quantized lines of tiles that a block holds ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Lines of all tiles are numbered as they come, and teams take turns. A thread
// has the same 16 columns of all lines of its team: it collects their largest
// magnitudes in registers, and where a tile ends, in shared memory.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"

#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::held_both_axes;

/// Vectors of words in a thread's chunk of bf16.
static constexpr int64_t kVectors = 2;

namespace {
class LinesBuilder {
public:
  LinesBuilder(Kernel &kernel, Value warp);
  void build();

private:
  /// Quantizes a line, `number` of all that the block loads, and adds its
  /// magnitudes to those of columns.
  SmallVector<Value> quantizeLine(const Tile &tile, Value inTile, Value number,
                                  ValueRange ofColumns);
  /// The largest magnitude of the team's threads.
  Value combineTeam(Value magnitude, Value number);
  /// The chunk as columns need it (RescaledBytes). Few have a zero.
  Value markLost(Value quantized, ArrayRef<Value> inputs);
  void collect(ValueRange ofColumns);

  Kernel &kernel;
  KernelBuilder &b;
  QuantizeMath &math;
  const HeldBothAxesTile &shape;
  /// i32; threads behind the last chunk repeat it, and store nothing.
  Value team, warpInTeam, threadInTeam, chunk;
  Value hasChunk, isFirstThread;
};
} // namespace

LinesBuilder::LinesBuilder(Kernel &kernel, Value warp)
    : kernel(kernel), b(kernel.b), math(kernel.operands.lines.math),
      shape(kernel.tile) {
  team = b.divU(warp, shape.getTeamWarps());
  warpInTeam = b.remU(warp, shape.getTeamWarps());
  threadInTeam = b.add(b.mul(warpInTeam, nvidia::kWarpThreads), kernel.lane);
  const int64_t chunks = kernel.getColumns() / HeldBothAxesTile::kChunk;
  chunk = b.minS(threadInTeam, chunks - 1);
  hasChunk = b.less(threadInTeam, chunks);
  isFirstThread = b.equal(threadInTeam, 0);
}

void LinesBuilder::build() {
  const int64_t teams = shape.getTeams();
  // Lines so far, and the parity of tiles.
  kernel.forEachTile(
      {b.i32(0), b.i32(0)}, [&](const Tile &tile, ValueRange carried) {
        Value before = carried[0], parity = carried[1];
        kernel.tileRing.createWaitEmpty(tile.slot);
        Value end = b.add(before, b.sub(tile.high, tile.low));
        // The team's first number from `before` on.
        Value turn =
            b.remU(b.sub(b.add(team, teams), b.remU(before, teams)), teams);
        SmallVector<Value> ofColumns =
            b.createFor(b.add(before, turn), end, teams,
                        SmallVector<Value>(kVectors, b.zeroWords()),
                        [&](Value number, ValueRange ofColumns) {
                          Value inTile = b.sub(number, before);
                          return quantizeLine(tile, inTile, number, ofColumns);
                        });
        createBarrierWait(b, kernel.getMagnitudesFree(), b.bitXor(parity, 1));
        collect(ofColumns);
        createArrive(b, kernel.getLinesDone());
        return SmallVector<Value>{end, b.bitXor(parity, 1)};
      });
}

Value LinesBuilder::combineTeam(Value magnitude, Value number) {
  magnitude = b.maxOfLanes(magnitude);
  Value turn = b.bitAnd(b.divU(number, shape.getTeams()), kLineSlots - 1);
  Value slot = b.add(b.mul(team, kLineSlots), turn);
  auto getPartial = [&](Value warp) {
    return kernel.getShared(
        kernel.memory.partials,
        b.add(b.mul(slot, HeldBothAxesTile::kMostTeamWarps), warp), kWordBytes);
  };
  b.createIf(kernel.isFirstLane,
             [&] { b.store(magnitude, getPartial(warpInTeam), kWordBytes); });
  createNamedBarrier(b, b.add(team, 1), shape.getTeamThreads());
  Value other = b.minS(kernel.lane, shape.getTeamWarps() - 1);
  return b.maxOfLanes(b.load(b.getI32Type(), getPartial(other), kWordBytes));
}

SmallVector<Value> LinesBuilder::quantizeLine(const Tile &tile, Value inTile,
                                              Value number,
                                              ValueRange ofColumns) {
  RingPosition position = kernel.lineRing.getPosition(number);
  kernel.lineRing.createWaitFull(position);
  Value pointer = b.offsetBytes(
      kernel.getShared(kernel.memory.lines, position.stage,
                       kernel.getColumns() * math.getInputBytes()),
      b.mul(chunk, kVectors * kVectorBytes));
  SmallVector<Value> next, values, inputs;
  Value ofLine = b.zeroWords();
  for (int64_t i : llvm::seq(kVectors)) {
    Value words =
        b.load(b.getWordsType(), b.offsetBytes(pointer, i * kVectorBytes),
               kVectorBytes);
    ofLine = math.createAbsMax(ofLine, words);
    next.push_back(math.createAbsMax(ofColumns[i], words));
    llvm::append_range(values, math.unpackValues(words));
    llvm::append_range(inputs, b.unpackWords(words));
  }
  Value scale =
      math.createScale(combineTeam(math.createLargest(ofLine), number));
  SegmentView view = kernel.operands.createLines(tile.segment);
  Value line = kernel.widen(b.add(tile.low, inTile));
  // All threads have loaded the line.
  b.createIf(isFirstThread, [&] {
    kernel.lineRing.createRelease(position.stage);
    kernel.operands.lines.storeScale(view, line, scale);
    kernel.storeLineScale(tile.slot.stage, inTile, scale);
  });
  SmallVector<Value> scales(HeldBothAxesTile::kChunk, scale);
  Value quantized = b.packWords(math.createQuantizeOwn(values, scales));
  b.createIf(hasChunk, [&] {
    Plane output = kernel.operands.lines.getOutputPlane(view, Along::Rows);
    Value column = b.mul(chunk, HeldBothAxesTile::kChunk);
    // Aligned, as the launch has asked for it.
    b.store(quantized,
            createElementPointer(b, output, kernel.widen(column), line),
            kVectorBytes);
    b.store(markLost(quantized, inputs),
            b.offsetBytes(kernel.getHeldLine(tile.slot.stage, inTile), column),
            kVectorBytes);
  });
  return next;
}

Value LinesBuilder::markLost(Value quantized, ArrayRef<Value> inputs) {
  SmallVector<Value> words = b.unpackWords(quantized);
  Value areNonzero = b.i32(RescaledBytes::kSigns);
  for (Value word : words)
    areNonzero = b.bitAnd(areNonzero, kernel.bytes.createNonzero(word));
  return b
      .createIf(
          b.equal(areNonzero, RescaledBytes::kSigns), {b.getWordsType()},
          [&] { return SmallVector<Value>{quantized}; },
          [&] {
            SmallVector<Value> marked;
            for (auto [i, word] : llvm::enumerate(words))
              marked.push_back(kernel.bytes.createMarks(
                  word, {inputs[2 * i], inputs[2 * i + 1]}));
            return SmallVector<Value>{b.packWords(marked)};
          })
      .front();
}

void LinesBuilder::collect(ValueRange ofColumns) {
  b.createIf(hasChunk, [&] {
    Value first = kernel.getCollected(b.i32(0), chunk);
    int64_t offset = 0;
    for (Value words : ofColumns)
      for (Value bits : math.unpackMagnitudes(words)) {
        LLVM::AtomicRMWOp::create(
            b, LLVM::AtomicBinOp::umax, b.offsetBytes(first, offset), bits,
            LLVM::AtomicOrdering::monotonic, b.getHooks().getBlockScope());
        offset += kernel.memory.magnitudePitch * kWordBytes;
      }
  });
}

void held_both_axes::buildLines(Kernel &kernel, Value warp) {
  LinesBuilder(kernel, warp).build();
}
