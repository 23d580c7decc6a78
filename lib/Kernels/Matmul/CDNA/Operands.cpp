//===- Operands.cpp - From memory to registers ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kChunkBytes = CDNAMatmulConfig::kChunkBytes;

/// Swizzle of 32 lines that an instruction reads: f has one bit more where
/// lanes that transpose store them, the lowest one of `bit`.
static Value addSwizzleBit(CDNAMatmulKernel &kernel, bool isRows, Value f,
                           Value bit) {
  if (!kernel.isMNMajor(isRows) || kernel.config.edge == 16)
    return f;
  return kernel.b.bitXor(f, kernel.b.bitAnd(bit, 1));
}

/// Lanes read rows that follow each other, and columns in an order in which
/// every lane then has eight neighbouring ones in the result: bits 1 to 3 of a
/// lane's number are bits 1, 3 and 4 of its column.
Value fp8moe::createSwizzle(CDNAMatmulKernel &kernel, bool isRows, Value line) {
  KernelBuilder &b = kernel.b;
  int64_t chunks = kernel.config.getChunksPerRow();
  Value f = b.bitAnd(b.shiftRight(line, 1), chunks - 1);
  if (!isRows) {
    Value low = b.bitAnd(b.shiftRight(line, 1), 1);
    Value high = b.bitAnd(b.shiftRight(line, 3), chunks / 2 - 1);
    f = b.bitOr(b.shiftLeft(high, 1), low);
  }
  return addSwizzleBit(kernel, isRows, f, b.shiftRight(line, isRows ? 3 : 2));
}

/// The first column that a lane reads, of those that follow each other in a
/// wave's part of a half.
static Value getLaneColumn(CDNAMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  Value lane = kernel.laneRow;
  // With 16 columns a lane has four of every eight, the second instruction the
  // other four.
  if (kernel.config.edge == 16)
    return b.bitOr(b.shiftLeft(b.shiftRight(lane, 2), 3), b.bitAnd(lane, 3));
  // With 32 columns, bits 2 and 3 change places.
  Value bit3 = b.shiftLeft(b.bitAnd(lane, 4), 1);
  Value bit2 = b.shiftRight(b.bitAnd(lane, 8), 1);
  return b.bitOr(b.bitAnd(lane, 0x13), b.bitOr(bit3, bit2));
}

/// Columns from one instruction to the next.
static constexpr int64_t kColumnStep = 4;

static ArrayAttr createScope(KernelBuilder &b,
                             LLVM::AliasScopeDomainAttr domain,
                             StringRef name) {
  return b.getArrayAttr(
      LLVM::AliasScopeAttr::get(domain, b.getStringAttr(name)));
}

/// The first of createLaneLines.
static Value createFirstLaneLine(CDNAMatmulKernel &kernel, MatmulHalf half) {
  KernelBuilder &b = kernel.b;
  const CDNAMatmulConfig &config = kernel.config;
  Value first =
      half.isRows
          ? b.add(b.mul(kernel.waveRow, config.getWaveRows()), kernel.laneRow)
          : b.add(b.mul(kernel.waveColumn, CDNAMatmulConfig::kWaveColumns),
                  getLaneColumn(kernel));
  return b.add(first, half.isSecond * config.getHalf(half.isRows));
}

SmallVector<Value> fp8moe::createLaneLines(CDNAMatmulKernel &kernel,
                                           MatmulHalf half) {
  const CDNAMatmulConfig &config = kernel.config;
  int64_t apart = half.isRows ? config.edge : kColumnStep;
  Value first = createFirstLaneLine(kernel, half);
  SmallVector<Value> lines;
  for (int64_t i : llvm::seq(config.getInstructions(half.isRows)))
    lines.push_back(kernel.b.add(first, i * apart));
  return lines;
}

Value fp8moe::createOperandBase(CDNAMatmulKernel &kernel, const CDNATile &tile,
                                bool isRows) {
  KernelBuilder &b = kernel.b;
  Value line = b.widen(tile.getFirst(isRows));
  Value first = b.widen(tile.firstByte);
  Value pitch = kernel.getPitch(isRows);
  Value base = isRows ? kernel.operandA : kernel.operandB;
  if (kernel.isMNMajor(isRows)) {
    Value position = b.divU(first, kernel.getElementBytes());
    base = b.offsetBytes(base, kernel.getBytes(line));
    base = b.offsetBytes(base, b.mul(position, pitch));
  } else {
    base = b.offsetBytes(base, b.mul(line, pitch));
    base = b.offsetBytes(base, first);
  }
  if (isRows || !kernel.problem.hasExperts())
    return base;
  return b.offsetBytes(
      base, b.mul(b.widen(tile.group), kernel.getBytes(kernel.strides.bGroup)));
}

CDNAOperands::CDNAOperands(CDNAMatmulKernel &kernel, const CDNATile &tile)
    : kernel(kernel), b(kernel.b), tile(tile) {
  const CDNAMatmulConfig &config = kernel.config;
  for (bool isRows : {true, false}) {
    if (kernel.isMNMajor(isRows))
      getSide(isRows).transposed.emplace(kernel, tile, isRows);
    else
      createAddresses(isRows);
  }

  // A lane reads the same chunk for all fragments.
  int64_t chunks = config.getChunksPerRow();
  Value f = b.bitAnd(b.shiftRight(kernel.laneRow, 1), chunks - 1);
  for (bool isRows : {true, false}) {
    Value line = createFirstLaneLine(kernel, {isRows, /*isSecond=*/false});
    Value lineF =
        addSwizzleBit(kernel, isRows, f, b.shiftRight(kernel.laneRow, 3));
    Value read = b.mul(b.bitXor(kernel.laneChunk, lineF), kChunkBytes);
    for (int64_t i : {0, 1}) {
      Value chunk = b.bitXor(read, i * config.stepBytes / 2);
      getSide(isRows).read[i] = b.add(b.mul(line, config.stepBytes), chunk);
    }
  }

  if (!config.loadsToShared)
    return;
  auto domain = LLVM::AliasScopeDomainAttr::get(b.getContext(),
                                                b.getStringAttr("stages"));
  loadScope = createScope(b, domain, "loads");
  readScope = createScope(b, domain, "reads");
}

/// Addresses in an operand that is contiguous along the contraction.
void CDNAOperands::createAddresses(bool isRows) {
  KernelBuilder::Step step(b, "operand_addresses");
  const CDNAMatmulConfig &config = kernel.config;
  int64_t chunks = config.getChunksPerRow();
  Side &side = getSide(isRows);
  Value pitch = kernel.getPitch(isRows);
  // The last chunk, or the last word of shifted lines, is read whole: its other
  // bytes are masked. All further words of a chunk are outside, word by word.
  bool isShifted = config.shiftsLines;
  Value end = b.widen(isShifted ? b.add(tile.endBytes, tile.shiftBytes)
                                : b.roundUp(tile.endBytes, kChunkBytes));
  Value left = b.minS(tile.getLeft(isRows), config.getLines(isRows));
  Value before = b.widen(b.sub(left, 1));
  Value bytes = b.add(b.mul(before, pitch), end);
  side.range = BufferRange(b, createOperandBase(kernel, tile, isRows),
                           isShifted ? b.roundUp(bytes, kWordBytes) : bytes);

  Value row = b.divU(kernel.thread, chunks);
  Value place = b.remU(kernel.thread, chunks);
  side.chunk =
      b.mul(b.bitXor(place, createSwizzle(kernel, isRows, row)), kChunkBytes);
  pitch = b.narrow(pitch);
  // Lines of a lane are apart by multiples of words.
  if (isShifted)
    side.shift = b.mul(
        b.bitAnd(b.add(b.mul(row, pitch), tile.shiftBytes), kWordBytes - 1), 8);
  for (bool isSecond : {false, true})
    for (int64_t round : llvm::seq(config.getRounds(isRows))) {
      Value inTile = b.add(row, isSecond * config.getHalf(isRows) +
                                    round * config.getRowsPerRound());
      Value line = b.mul(inTile, pitch);
      if (isShifted)
        line = b.bitAnd(b.add(line, tile.shiftBytes), -kWordBytes);
      side.offsets[isSecond].push_back(b.add(line, side.chunk));
    }
}

bool CDNAOperands::isDirect(MatmulHalf half) const {
  return kernel.config.loadsToShared && !kernel.isMNMajor(half.isRows);
}

int64_t CDNAOperands::countLoads(MatmulHalf half) const {
  return isDirect(half) ? kernel.config.getRounds(half.isRows)
                        : countStaged(half);
}

/// Where half a stage begins in the stage.
int64_t CDNAOperands::getHalfOffset(MatmulHalf half) const {
  const CDNAMatmulConfig &config = kernel.config;
  int64_t first = half.isRows ? 0 : config.rows;
  return (first + half.isSecond * config.getHalf(half.isRows)) *
         config.stepBytes;
}

BufferRange fp8moe::excludeBehindEnd(const CDNAMatmulKernel &kernel,
                                     const CDNATile &tile,
                                     const BufferRange &range, Value inStage,
                                     Value step,
                                     MutableArrayRef<Value> offsets) {
  KernelBuilder &b = kernel.b;
  if (kernel.hasWholeStages())
    return range.onlyIf(b, b.less(step, tile.endBytes));
  Value isInside = b.less(inStage, b.sub(tile.endBytes, step));
  for (Value &offset : offsets)
    offset = b.select(isInside, offset, BufferRange::kOutside);
  return range;
}

/// A sum with what all lanes add lies in the range, or outside of it without
/// that as well. The range of shifted lines ends inside of their last chunk, so
/// that what is compared with it, the lane's offset, counts from the first
/// stage on.
CDNAOperands::Address CDNAOperands::getAddress(MatmulHalf half, Value step) {
  Side &side = getSide(half.isRows);
  bool isShifted = kernel.config.shiftsLines;
  assert(!(isShifted && kernel.hasWholeStages()) &&
         "groups that are padded are not shifted");
  Address address;
  address.offsets = side.offsets[half.isSecond];
  if (isShifted)
    for (Value &offset : address.offsets)
      offset = b.add(offset, step);
  address.range = excludeBehindEnd(kernel, tile, side.range, side.chunk, step,
                                   address.offsets);
  if (isShifted)
    address.uniform = b.i32(0);
  else
    address.uniform =
        kernel.hasWholeStages() ? step : b.minS(step, tile.endBytes);
  return address;
}

void CDNAOperands::loadToShared(MatmulHalf half, Value stage, Value step) {
  constexpr int64_t waveBytes = CDNAMatmulConfig::kWaveLanes * kChunkBytes;
  Value place = b.add(stage, b.mul(kernel.wave, waveBytes));
  Address address = getAddress(half, step);
  for (auto [round, offset] : llvm::enumerate(address.offsets)) {
    int64_t inStage =
        getHalfOffset(half) + round * kernel.config.getThreads() * kChunkBytes;
    Value shared = b.offsetBytes(kernel.shared, b.add(place, inStage));
    address.range.loadToShared(b, shared, kChunkBytes, offset, address.uniform,
                               loadScope, readScope);
  }
}

int64_t CDNAOperands::countStaged(MatmulHalf half) const {
  if (isDirect(half))
    return 0;
  int64_t rounds = kernel.config.getRounds(half.isRows);
  if (kernel.isMNMajor(half.isRows))
    return rounds * CDNATransposedLoads::kPair;
  return rounds * (kernel.config.shiftsLines ? 2 : 1);
}

SmallVector<Value> CDNAOperands::load(MatmulHalf half, Value step) {
  if (auto &transposed = getSide(half.isRows).transposed)
    return transposed->load(half, step);
  Address address = getAddress(half, step);
  SmallVector<Value> staged;
  for (Value offset : address.offsets) {
    auto load = [&](Type type, Value at) {
      return address.range.load(b, type, at, address.uniform);
    };
    staged.push_back(load(b.getWordsType(), offset));
    if (kernel.config.shiftsLines)
      staged.push_back(load(b.getI32Type(), b.add(offset, kChunkBytes)));
  }
  return staged;
}

/// Where lines are shifted, a chunk begins up to three bytes into the 20 that
/// were loaded.
SmallVector<Value> CDNAOperands::combine(MatmulHalf half,
                                         ArrayRef<Value> staged) {
  if (auto &transposed = getSide(half.isRows).transposed)
    return transposed->transpose(staged);
  if (!kernel.config.shiftsLines)
    return SmallVector<Value>(staged);
  Value bits = getSide(half.isRows).shift;
  SmallVector<Value> chunks;
  for (size_t i = 0; i < staged.size(); i += 2) {
    SmallVector<Value> words = b.unpackWords(staged[i]);
    words.push_back(staged[i + 1]);
    chunks.push_back(createFunnelShift(b, words, bits));
  }
  return chunks;
}

void CDNAOperands::storeToShared(MatmulHalf half, Value stage,
                                 ArrayRef<Value> chunks) {
  if (auto &transposed = getSide(half.isRows).transposed) {
    for (auto [word, place] :
         llvm::zip_equal(chunks, transposed->createPlaces(stage)))
      separateFromLoads(LLVM::StoreOp::create(
          b, word,
          b.offsetBytes(b.offsetBytes(kernel.shared, place),
                        getHalfOffset(half)),
          kWordBytes));
    return;
  }
  Value place = b.add(b.mul(kernel.thread, kChunkBytes), stage);
  Value base = b.offsetBytes(kernel.shared, place);
  for (auto [round, chunk] : llvm::enumerate(chunks)) {
    int64_t offset =
        getHalfOffset(half) + round * kernel.config.getThreads() * kChunkBytes;
    b.store(chunk, b.offsetBytes(base, offset), kChunkBytes);
  }
}

SmallVector<MfmaFragment> CDNAOperands::read(MatmulHalf half, Value stage) {
  const CDNAMatmulConfig &config = kernel.config;
  int64_t rowsApart = half.isRows ? config.edge : kColumnStep;
  SmallVector<MfmaFragment> fragments(config.getInstructions(half.isRows));
  for (int64_t i : {0, 1}) {
    Value base = b.offsetBytes(kernel.shared,
                               b.add(getSide(half.isRows).read[i], stage));
    for (auto [index, fragment] : llvm::enumerate(fragments)) {
      int64_t offset =
          getHalfOffset(half) + index * rowsApart * config.stepBytes;
      auto load = LLVM::LoadOp::create(
          b, b.getWordsType(), b.offsetBytes(base, offset), kChunkBytes);
      separateFromLoads(load);
      fragment.chunks[i] = load;
    }
  }
  return fragments;
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value CDNAOperands::createHasMask(Value step) {
  Value hasMask;
  if (kernel.needsTailMask()) {
    Value isPart =
        b.isNonZero(b.bitAnd(tile.endBytes, CDNAMatmulConfig::kChunkBytes - 1));
    Value isLast =
        b.lessEqual(b.sub(tile.endBytes, step), kernel.config.stepBytes);
    hasMask = b.bitAnd(isPart, isLast);
  }
  if (kernel.needsHeadMask()) {
    Value isPart = b.isNonZero(tile.headBytes);
    Value isHead = b.bitAnd(isPart, b.equal(step, 0));
    hasMask = hasMask ? b.bitOr(hasMask, isHead) : isHead;
  }
  return hasMask;
}

/// The bits of the chunk that begins `begin` bytes into the contraction that
/// are the tile's.
Value CDNAOperands::createMask(Value begin) {
  SmallVector<Value> words;
  for (int64_t byte = 0; byte < kChunkBytes; byte += kWordBytes) {
    Value first = b.add(begin, byte);
    Value word = createByteMask(b, b.sub(tile.endBytes, first));
    if (kernel.needsHeadMask()) {
      Value head = createByteMask(b, b.sub(tile.headBytes, first));
      word = b.bitAnd(word, b.bitXor(head, -1));
    }
    words.push_back(word);
  }
  return b.packWords(words);
}

void CDNAOperands::mask(Value step, MutableArrayRef<MfmaFragment> fragments) {
  for (int64_t i : {0, 1}) {
    Value begin = b.add(b.mul(kernel.laneChunk, kChunkBytes),
                        i * kernel.config.stepBytes / 2);
    Value mask = createMask(b.add(begin, step));
    for (MfmaFragment &fragment : fragments)
      fragment.chunks[i] = b.bitAnd(fragment.chunks[i], mask);
  }
}

void CDNAOperands::mask(MatmulHalf half, Value step,
                        MutableArrayRef<Value> chunks) {
  Value mask = createMask(b.add(getSide(half.isRows).chunk, step));
  for (Value &chunk : chunks)
    chunk = b.bitAnd(chunk, mask);
}
