//===- Converter.cpp - Operands with scales of blocks become bf16 ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Hopper has no matrix instruction that takes scales of blocks. An element of
// FP8 and a power of two is exact in bf16 (from 2^-130 to its largest), so the
// producer's warps convert operands to bf16 and fill the stages that consumers
// multiply as those of any matmul of bf16.
//
// A lane takes a line, a row of A or a column of B, of every 128; a warp's 32
// lines are a box of the tensor map, which it loads two slots ahead, 128
// elements of the contraction at a time: four blocks, one word of scales, and
// two stages of bf16. Both operands are swizzled, before and after, so that the
// lanes of a quarter warp access all banks. Copies of a tile begin when the one
// before is converted; the consumers' ring hides that.
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/ScaleTiles.h"
#include "FP8MoEToGPU/Matmul/Hopper/Kernel.h"
#include "FP8MoEToGPU/NVIDIA/MBarrier.h"
#include "FP8MoEToGPU/NVIDIA/TensorCopies.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;

using nvidia::kWarpgroupThreads;

/// Elements of a line in a slot, their blocks, each with a byte of a word, and
/// the stages of bf16 that they make.
static constexpr int64_t kSlotElements = kSwizzleRowBytes;
static constexpr int64_t kSlotBlocks = kSlotElements / kMXBlock;
static constexpr int64_t kSlotStages = 2;
static_assert(kSlotBlocks == kScaleTileBlocks,
              "a slot is as wide as a tile of scales");
/// Bytes of a warp's lines in a slot.
static constexpr int64_t kBoxBytes = kConvertedLines * kSwizzleRowBytes;
static constexpr int64_t kByteBits = 8;
static constexpr int64_t kChunkWords = kSwizzleChunkBytes / kWordBytes;
/// Chunks of a line that make a stage.
static constexpr int64_t kHalfChunks =
    kSwizzleRowBytes / kSwizzleChunkBytes / kSlotStages;

namespace {
/// 128 lines of a tile's operand.
struct Part {
  bool isOfA;
  /// The lines before it of the same operand.
  int64_t firstLine;
};

/// The lane's line of a part: where its scales are.
struct Line {
  BlockScales layout;
  /// The word of the first slot.
  Value pointer;
};

/// Half of a slot, the unit of conversion.
struct HalfSlot {
  /// The slot (i32), and whether no other one of the tile follows (i1).
  Value slot, isLast;
  /// 0 or 1 (i32).
  Value half;
};

class Converter {
public:
  explicit Converter(GroupedMatmulKernel &kernel);

  void build();

private:
  void convertTile(const Tile &tile, Value stageCount);
  void convertHalf(const Tile &tile, ArrayRef<Value> scales,
                   const HalfSlot &from, RingPosition position);
  SmallVector<Value> loadChunks(const Tile &tile, size_t part,
                                const HalfSlot &from);
  SmallVector<Value> loadAlignedChunks(size_t part, const HalfSlot &from);
  SmallVector<Value> loadShiftedChunks(size_t part, const HalfSlot &from,
                                       Value head);
  SmallVector<Value> convertChunk(Value words, Value scale, Type type);
  void loadSlot(const Tile &tile, Value number, Value slot);
  void awaitSlot(const Tile &tile, Value number, Value before);
  void clearTail(Value slot, Value left);
  Value getSlot(Value before, Value number) {
    return b.remU(b.add(before, number), kLoadedSlots);
  }

  Line getLine(const Tile &tile, const Part &part);
  Value loadScales(const Line &line, const Tile &tile, Value number);
  Value loadScaleBytes(Value pointer, Value number);

  Value getLength(const Tile &tile);
  Value widen(Value value) { return b.zeroExtend(b.getI64Type(), value); }
  Value getSlotBarrier(Value slot);
  Value getBox(Value slot, size_t part);
  /// The lane's line in a slot, and from its beginning to the chunk or the word
  /// of this number.
  Value getLineInSlot(Value slot, size_t part) {
    return b.offsetBytes(getBox(slot, part),
                         b.mul(kernel.lane, kSwizzleRowBytes));
  }
  Value getChunk(Value number);
  Value getWord(Value number) {
    return b.add(getChunk(b.divU(number, kChunkWords)),
                 b.mul(b.remU(number, kChunkWords), kWordBytes));
  }

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  StageRing ring;
  SmallVector<Part> parts;
  /// The lane's line of the first 128.
  Value line;
  /// Blocks of a whole line (i32).
  Value numBlocks;
};
} // namespace

Converter::Converter(GroupedMatmulKernel &kernel)
    : kernel(kernel), b(kernel.b), ring(kernel.getRing(b.i32(0))),
      line(b.add(b.mul(kernel.warp, kConvertedLines), kernel.lane)),
      numBlocks(b.ceilDiv(kernel.sizes.contraction, kMXBlock)) {
  for (bool isOfA : {true, false})
    for (int64_t first = 0,
                 end = isOfA ? kernel.config.rows : kernel.config.columns;
         first < end; first += kWarpgroupThreads)
      parts.push_back({isOfA, first});
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

Line Converter::getLine(const Tile &tile, const Part &part) {
  const GroupedMatmulProblem &problem = kernel.problem;
  Line result;
  result.layout = part.isOfA ? problem.blockScalesA : problem.blockScalesB;
  result.pointer = part.isOfA ? kernel.scaleA : kernel.scaleB;
  Value count = part.isOfA ? kernel.sizes.rows : kernel.sizes.columns;
  Value first = part.isOfA ? tile.row : tile.column;
  Value tilesAcross, firstTile = b.i32(0);
  if (!problem.isMGrouped()) {
    tilesAcross =
        createGroupScaleTiles(b, kernel.sizes.contraction, kernel.sizes.groups);
    firstTile = b.divU(tile.scaleBegin, kSegmentTile);
  } else {
    tilesAcross = b.ceilDiv(numBlocks, kScaleTileBlocks);
    if (part.isOfA && result.layout == BlockScales::GroupTiles) {
      first = tile.scaleBegin;
      count = b.mul(createGroupScaleTiles(b, count, kernel.sizes.groups),
                    kSegmentTile);
    }
  }
  bool ofLines = result.layout == BlockScales::Lines;
  auto add = [&](Value bytes) {
    result.pointer = b.offsetBytes(result.pointer, bytes);
  };
  if (!part.isOfA && problem.hasExperts()) {
    // Each expert's scales are a matrix.
    Value bytes = ofLines ? b.mul(widen(count), widen(numBlocks))
                          : b.mul(b.mul(widen(b.ceilDiv(count, kSegmentTile)),
                                        widen(tilesAcross)),
                                  kScaleTileBytes);
    add(b.mul(widen(tile.group), bytes));
  }
  // Lines behind the last one are not used: their index is clamped.
  Value number =
      b.minS(b.add(b.add(first, line), part.firstLine), b.sub(count, 1));
  if (ofLines) {
    add(b.mul(widen(number), widen(numBlocks)));
  } else {
    Value inTile =
        createOffsetInScaleTile(b, b.remU(number, kSegmentTile), b.i32(0));
    Value before =
        b.add(b.mul(widen(b.divU(number, kSegmentTile)), widen(tilesAcross)),
              widen(firstTile));
    add(b.add(b.mul(before, kScaleTileBytes), widen(inTile)));
  }
  return result;
}

/// Elements of the tile's contraction (i32).
Value Converter::getLength(const Tile &tile) {
  if (kernel.problem.isMGrouped())
    return kernel.sizes.contraction;
  Value before = b.mul(b.sub(tile.numStages, 1), kSwizzleRowBytes);
  return b.divU(b.add(before, tile.lastBytes),
                getMultipliedBytes(kernel.problem));
}

/// (X1): bytes of lines of any number follow each other.
Value Converter::loadScaleBytes(Value pointer, Value number) {
  Value block = b.mul(number, kSlotBlocks);
  pointer = b.offsetBytes(pointer, widen(block));
  return b.createIf(
      b.equal(b.remU(numBlocks, kSlotBlocks), 0), b.getI32Type(),
      [&]() -> SmallVector<Value> {
        return {b.load(b.getI32Type(), pointer, kWordBytes)};
      },
      [&] {
        Value end = b.minS(b.sub(numBlocks, block), kSlotBlocks);
        return b.createRareFor(
            b.i32(0), end, 1, b.i32(0),
            [&](Value i, ValueRange carried) -> SmallVector<Value> {
              Value byte =
                  b.load(b.getI8Type(), b.offsetBytes(pointer, widen(i)), 1);
              Value bits = b.shiftLeft(b.zeroExtend(b.getI32Type(), byte),
                                       b.mul(i, kByteBits));
              return {b.bitOr(carried[0], bits)};
            });
      })[0];
}

/// The word of a line in a slot, if there is such a slot. Blocks behind the end
/// of the contraction have no scale: a zero byte, which is finite.
Value Converter::loadScales(const Line &line, const Tile &tile, Value number) {
  Value left = b.sub(getLength(tile), b.mul(number, kSlotElements));
  Value exists =
      b.bitAnd(b.less(b.i32(0), left), b.bitXor(tile.isZero, b.i1(true)));
  return b.createIf(
      exists, b.getI32Type(),
      [&]() -> SmallVector<Value> {
        if (line.layout == BlockScales::Lines)
          return {loadScaleBytes(line.pointer, number)};
        Value word = b.load(
            b.getI32Type(),
            b.offsetBytes(line.pointer, b.mul(widen(number), kScaleTileBytes)),
            kWordBytes);
        Value blocks = b.ceilDiv(left, kMXBlock);
        Value bits = b.mul(b.bitAnd(blocks, kSlotBlocks - 1), kByteBits);
        Value mask = b.select(b.less(blocks, kSlotBlocks),
                              b.sub(b.shiftLeft(b.i32(1), bits), 1), b.i32(-1));
        return {b.bitAnd(word, mask)};
      },
      [&]() -> SmallVector<Value> { return {b.i32(0)}; })[0];
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

Value Converter::getSlotBarrier(Value slot) {
  Value number = b.add(b.mul(kernel.warp, kLoadedSlots), slot);
  return kernel.getShared(b.add(b.mul(number, nvidia::kMBarrierBytes),
                                kernel.memory.loadedBarriers));
}

Value Converter::getBox(Value slot, size_t part) {
  Value number = b.add(b.mul(kernel.warp, kLoadedSlots), slot);
  int64_t slotBytes = parts.size() * kBoxBytes;
  return kernel.getShared(
      b.add(b.mul(number, slotBytes), kernel.memory.loaded + part * kBoxBytes));
}

Value Converter::getChunk(Value number) {
  constexpr int64_t kRowsOfSwizzle = 8;
  Value row = b.bitAnd(kernel.lane, kRowsOfSwizzle - 1);
  return b.mul(b.bitXor(number, row), kSwizzleChunkBytes);
}

/// By the warp, all of whose lanes are done with the slot.
void Converter::loadSlot(const Tile &tile, Value number, Value slot) {
  Value exists = b.less(b.mul(number, kSlotStages), tile.numStages);
  b.createIf(b.bitAnd(exists, b.equal(kernel.lane, 0)), [&] {
    Value barrier = getSlotBarrier(slot);
    createArriveExpecting(b, barrier, parts.size() * kBoxBytes);
    Value along = b.add(tile.contraction, b.mul(number, kSlotElements));
    for (auto [index, part] : llvm::enumerate(parts)) {
      Value first = b.add(part.isOfA ? tile.row : tile.column, part.firstLine);
      SmallVector<Value> coordinates{
          along, b.add(first, b.mul(kernel.warp, kConvertedLines))};
      if (!part.isOfA && kernel.problem.hasExperts())
        coordinates.push_back(tile.group);
      createTensorLoad(b, part.isOfA ? kernel.mapA : kernel.mapB, coordinates,
                       getBox(slot, index), barrier);
    }
  });
}

/// Waits until a slot is loaded, and zeroes what belongs to the next group.
void Converter::awaitSlot(const Tile &tile, Value number, Value before) {
  Value slot = getSlot(before, number);
  Value round = b.divU(b.add(before, number), kLoadedSlots);
  createBarrierWait(b, getSlotBarrier(slot), b.bitAnd(round, 1));
  if (kernel.problem.isMGrouped())
    return;
  Value left = b.sub(b.add(getLength(tile), tile.headBytes),
                     b.mul(number, kSlotElements));
  b.createIf(b.less(left, kSlotElements), [&] { clearTail(slot, left); });
}

/// Zeroes what is behind `left` elements of every line. Another group's NaN
/// times zero would be NaN.
void Converter::clearTail(Value slot, Value left) {
  for (size_t part : llvm::seq(parts.size())) {
    Value own = getLineInSlot(slot, part);
    b.createRareFor(
        b.divU(left, kWordBytes), b.i32(kSlotElements / kWordBytes), 1,
        ValueRange(), [&](Value word, ValueRange) {
          Value place = b.offsetBytes(own, getWord(word));
          Value bytes = b.maxS(b.sub(left, b.mul(word, kWordBytes)), 0);
          Value mask = b.sub(b.shiftLeft(b.i32(1), b.mul(bytes, kByteBits)), 1);
          Value old = b.load(b.getI32Type(), place, kWordBytes);
          b.store(b.bitAnd(old, mask), place, kWordBytes);
          return SmallVector<Value>();
        });
  }
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// 16 elements of FP8 as eight words of bf16, times the powers of two in both
/// halves of `scale`.
SmallVector<Value> Converter::convertChunk(Value words, Value scale,
                                           Type type) {
  auto asPair = [&](Value word) {
    return LLVM::BitcastOp::create(b, VectorType::get(2, b.getBF16Type()),
                                   word);
  };
  SmallVector<Value> results;
  for (Value word : b.unpackWords(words)) {
    SmallVector<Value> values = b.getHooks().createUnpackFP8(b, word, type);
    for (size_t i = 0; i < values.size(); i += 2) {
      Value pair = asPair(b.packBF16(values[i], values[i + 1]));
      results.push_back(LLVM::BitcastOp::create(
          b, b.getI32Type(), arith::MulFOp::create(b, pair, asPair(scale))));
    }
  }
  return results;
}

/// The chunks of the lane's line in half of a slot.
SmallVector<Value> Converter::loadAlignedChunks(size_t part,
                                                const HalfSlot &from) {
  Value line = getLineInSlot(from.slot, part);
  SmallVector<Value> chunks;
  for (int64_t chunk : llvm::seq(kHalfChunks)) {
    Value number = b.add(b.mul(from.half, kHalfChunks), chunk);
    chunks.push_back(b.load(b.getWordsType(),
                            b.offsetBytes(line, getChunk(number)),
                            kSwizzleChunkBytes));
  }
  return chunks;
}

/// As loadChunks, where the group begins `head` bytes, up to 15, after the
/// slot: the last ones are at the beginning of the other slot.
SmallVector<Value>
Converter::loadShiftedChunks(size_t part, const HalfSlot &from, Value head) {
  constexpr int64_t kSlotWords = kSlotElements / kWordBytes;
  static_assert(kLoadedSlots == 2, "the slot behind this one is the other one");
  Value firstWord = b.add(b.divU(head, kWordBytes),
                          b.mul(from.half, kSlotWords / kSlotStages));
  Value shift = widen(b.mul(b.remU(head, kWordBytes), kByteBits));
  Value here = getLineInSlot(from.slot, part);
  Value behind = getLineInSlot(b.bitXor(from.slot, 1), part);
  auto loadWord = [&](int64_t number) {
    Value word = b.add(firstWord, number);
    Value isHere = b.less(word, kSlotWords);
    Value line = b.select(isHere, here, behind);
    Value offset = getWord(b.remU(word, kSlotWords));
    Value loaded =
        b.load(b.getI32Type(), b.offsetBytes(line, offset), kWordBytes);
    // Behind the last slot there are zeros.
    return b.select(b.bitOr(isHere, b.bitXor(from.isLast, b.i1(true))), loaded,
                    b.i32(0));
  };
  SmallVector<Value> words, chunks;
  Value low = loadWord(0);
  for (int64_t number : llvm::seq(kHalfChunks * kChunkWords)) {
    Value high = loadWord(number + 1);
    Value both =
        b.bitOr(widen(low), b.shiftLeft(widen(high), kWordBytes * kByteBits));
    words.push_back(b.truncate(b.getI32Type(), b.shiftRight(both, shift)));
    low = high;
  }
  for (int64_t chunk : llvm::seq(kHalfChunks))
    chunks.push_back(
        b.packWords(ArrayRef(words).slice(chunk * kChunkWords, kChunkWords)));
  return chunks;
}

SmallVector<Value> Converter::loadChunks(const Tile &tile, size_t part,
                                         const HalfSlot &from) {
  if (kernel.problem.isMGrouped())
    return loadAlignedChunks(part, from);
  SmallVector<Type> types(kHalfChunks, b.getWordsType());
  return b.createIf(
      b.equal(tile.headBytes, 0), types,
      [&] { return loadAlignedChunks(part, from); },
      [&] { return loadShiftedChunks(part, from, tile.headBytes); });
}

/// Half of a slot's elements become a stage.
void Converter::convertHalf(const Tile &tile, ArrayRef<Value> scales,
                            const HalfSlot &from, RingPosition position) {
  constexpr int64_t kBlockChunks = kMXBlock / kSwizzleChunkBytes;
  SmallVector<Value> chunks = loadChunks(tile, 0, from);
  ring.createWaitEmpty(position);
  for (auto [index, part] : llvm::enumerate(parts)) {
    int64_t stageBytes = part.isOfA ? kernel.config.getStageBytesA()
                                    : kernel.config.getStageBytesB();
    int64_t begin = part.isOfA ? kernel.memory.a : kernel.memory.b;
    Value to = kernel.getShared(b.add(
        b.add(b.mul(position.stage, stageBytes), b.mul(line, kSwizzleRowBytes)),
        begin + part.firstLine * kSwizzleRowBytes));
    Type type = part.isOfA ? kernel.problem.aType : kernel.problem.bType;
    // Loads come before the stores that they might depend on.
    SmallVector<Value> next;
    if (index + 1 < parts.size())
      next = loadChunks(tile, index + 1, from);
    Value scale;
    for (int64_t chunk : llvm::seq(kHalfChunks)) {
      if (chunk % kBlockChunks == 0) {
        Value block = b.add(b.mul(from.half, kSlotBlocks / kSlotStages),
                            chunk / kBlockChunks);
        Value byte =
            b.bitAnd(b.shiftRight(scales[index], b.mul(block, kByteBits)),
                     (1 << kByteBits) - 1);
        scale = b.mul(createBlockScaleBF16Bits(b, byte), 0x00010001);
      }
      SmallVector<Value> converted = convertChunk(chunks[chunk], scale, type);
      for (int64_t i : {0, 1})
        b.store(b.packWords(
                    ArrayRef(converted).slice(i * kChunkWords, kChunkWords)),
                b.offsetBytes(to, getChunk(b.i32(chunk * 2 + i))),
                kSwizzleChunkBytes);
    }
    chunks = next;
  }
  createAsyncProxyFence(b);
  b.syncSubgroup();
  b.createIf(b.equal(kernel.lane, 0),
             [&] { createArrive(b, ring.getFullBarrier(position.stage)); });
}

void Converter::convertTile(const Tile &tile, Value stageCount) {
  RingPosition begin = ring.getPosition(stageCount);
  Value before = b.divU(stageCount, kSlotStages);
  SmallVector<Line> lines;
  for (const Part &part : parts)
    lines.push_back(getLine(tile, part));
  auto loadAllScales = [&](Value number) {
    SmallVector<Value> words;
    for (const Line &line : lines)
      words.push_back(loadScales(line, tile, number));
    return words;
  };
  for (int64_t number : llvm::seq(kLoadedSlots))
    loadSlot(tile, b.i32(number), getSlot(before, b.i32(number)));

  // Groups of the contraction begin inside of a slot, and reach into the next.
  bool looksAhead = !kernel.problem.isMGrouped();
  if (looksAhead)
    awaitSlot(tile, b.i32(0), before);
  Value numSlots = b.divU(tile.numStages, kSlotStages);
  SmallVector<Value> init{begin.stage, begin.parity};
  init.append(loadAllScales(b.i32(0)));
  b.createFor(b.i32(0), numSlots, 1, init,
              [&](Value number, ValueRange carried) {
                SmallVector<Value> scales(carried.drop_front(2));
                Value following = b.add(number, 1);
                // Scales of the next slot are on their way meanwhile.
                SmallVector<Value> next = loadAllScales(following);
                Value isLast = b.equal(following, numSlots);
                if (looksAhead)
                  b.createIf(b.bitXor(isLast, b.i1(true)),
                             [&] { awaitSlot(tile, following, before); });
                else
                  awaitSlot(tile, number, before);
                Value slot = getSlot(before, number);
                SmallVector<Value> position = b.createFor(
                    b.i32(0), b.i32(kSlotStages), 1, {carried[0], carried[1]},
                    [&](Value half, ValueRange carried) -> SmallVector<Value> {
                      RingPosition here{carried[0], carried[1]};
                      convertHalf(tile, scales, {slot, isLast, half}, here);
                      RingPosition next = ring.getNext(here);
                      return {next.stage, next.parity};
                    });
                b.syncSubgroup();
                loadSlot(tile, b.add(number, kLoadedSlots), slot);
                next.insert(next.begin(), position.begin(), position.end());
                return next;
              });
}

void Converter::build() {
  TileWalk walk{kernel.block, kernel.numBlocks, Value()};
  TileScheduler(kernel).forEachTile(
      walk, [&](const Tile &tile, Value count) { convertTile(tile, count); });
}

void fp8moe::createConverterBarriers(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  for (int64_t number : llvm::seq(nvidia::kWarpgroupWarps * kLoadedSlots))
    createBarrierInit(b,
                      kernel.getShared(b.i32(kernel.memory.loadedBarriers +
                                             number * nvidia::kMBarrierBytes)),
                      1);
}

void fp8moe::buildMatmulConverter(GroupedMatmulKernel &kernel) {
  createSetRegisters(kernel.b, HopperMatmulConfig::getProducerRegisters(true),
                     /*increase=*/false);
  Converter(kernel).build();
}
