//===- RelayoutScales.cpp - Block scales to and from tiles ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Copy/Relayout.h"

#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/ScaleTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

static_assert(kRelayoutScalesThreads ==
              kRelayoutScalesTiles * kInterleavedLines);

namespace {
/// A tile has chunks of 16 bytes: the blocks of each of four lines, which lie
/// 32 apart. A thread moves one of them, so that tiles are accessed in chunks
/// and plain scales in words.
class ScalesBuilder {
public:
  ScalesBuilder(KernelBuilder &b, const RelayoutScalesProblem &problem)
      : b(b), problem(problem) {
    unsigned parameter = 0;
    sizes = bindSizes(b, problem.sizes, parameter);
    Value one = b.i64(1),
          pointer = b.getPointer(problem.toTiles ? 1 : 0, "tiles");
    tiles = {pointer, /*elementBytes=*/1, one, one,
             createVectorizable(b, pointer, problem.tilesAlignment,
                                /*elementBytes=*/1, one, {})};
    plain = b.getPointer(problem.toTiles ? 0 : 1, "plain");
  }

  void build();

private:
  void moveTiles(Value workTile);
  void moveChunk(Value matrix, Value firstLine, Value block, Value chunk);
  Value loadWord(Value pointer, Value line, Value block);
  void storeWord(Value pointer, Value line, Value block, Value word);
  Value isWhole(Value pointer, Value block);
  Value getPlace(Value pointer, int64_t index) {
    return b.offsetBytes(pointer, b.mul(sizes.blockStride, index));
  }
  Value isInside(Value block, int64_t index) {
    return b.less(b.add(block, index), sizes.blocks);
  }

  KernelBuilder &b;
  const RelayoutScalesProblem &problem;
  ScaleMatrices<Value> sizes;
  /// The bytes of all tiles.
  Plane tiles;
  Value plain;
};
} // namespace

/// Whether the blocks of a tile's line may be accessed as a word.
Value ScalesBuilder::isWhole(Value pointer, Value block) {
  Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  Value isAligned = b.equal(b.bitAnd(address, kWordBytes - 1), 0);
  return b.bitAnd(b.bitAnd(b.equal(sizes.blockStride, 1), isAligned),
                  isInside(block, kScaleTileBlocks - 1));
}

/// (X6): bytes outside of the matrix are zero.
Value ScalesBuilder::loadWord(Value pointer, Value line, Value block) {
  auto loadByte = [&](int64_t index) {
    return b.createIf(
        isInside(block, index),
        [&] {
          return b.load(b.getI8Type(), getPlace(pointer, index),
                        /*alignment=*/1, /*readOnly=*/true);
        },
        [&] { return arith::ConstantIntOp::create(b, b.getI8Type(), 0); });
  };
  auto loadBytes = [&] {
    Value word = b.i32(0);
    for (int64_t i : llvm::seq(kScaleTileBlocks))
      word = b.bitOr(
          word, b.shiftLeft(b.zeroExtend(b.getI32Type(), loadByte(i)), 8 * i));
    return word;
  };
  auto loadInside = [&] {
    return b.createIf(
        isWhole(pointer, block),
        [&] {
          return b.load(b.getI32Type(), pointer, kWordBytes,
                        /*readOnly=*/true);
        },
        loadBytes);
  };
  return b.createIf(b.less(line, sizes.lines), loadInside,
                    [&] { return b.i32(0); });
}

void ScalesBuilder::storeWord(Value pointer, Value line, Value block,
                              Value word) {
  auto storeBytes = [&] {
    for (int64_t i : llvm::seq(kScaleTileBlocks))
      b.createIf(isInside(block, i), [&] {
        b.store(b.truncate(b.getI8Type(), b.shiftRight(word, 8 * i)),
                getPlace(pointer, i), /*alignment=*/1);
      });
  };
  b.createIf(b.less(line, sizes.lines), [&] {
    b.createIf(
        isWhole(pointer, block), [&] { b.store(word, pointer, kWordBytes); },
        storeBytes);
  });
}

void ScalesBuilder::moveChunk(Value matrix, Value firstLine, Value block,
                              Value chunk) {
  auto forEachLine = [&](function_ref<void(int64_t, Value, Value)> visit) {
    Value first = b.add(b.mul(matrix, sizes.matrixStride),
                        b.mul(block, sizes.blockStride));
    for (int64_t i : llvm::seq(kScaleTileBlocks)) {
      Value line = b.add(firstLine, i * kInterleavedLines);
      visit(i, line,
            b.offsetBytes(plain, b.add(first, b.mul(line, sizes.lineStride))));
    }
  };
  SmallVector<Value> words;
  Value zero = b.i64(0);
  IndexRange range{chunk, b.add(chunk, kVectorBytes)};
  if (problem.toTiles) {
    forEachLine([&](int64_t, Value line, Value pointer) {
      words.push_back(loadWord(pointer, line, block));
    });
    storeChunk(b, tiles, chunk, zero, b.packWords(words), range);
    return;
  }
  words = b.unpackWords(loadChunks(b, tiles, chunk, 1, zero, range).front());
  forEachLine([&](int64_t i, Value line, Value pointer) {
    storeWord(pointer, line, block, words[i]);
  });
}

/// Eight tiles of the same lines. Their threads take turns such that those of a
/// subgroup access neighbouring words of a line, or of a block.
void ScalesBuilder::moveTiles(Value workTile) {
  Value blockTiles = b.ceilDiv(sizes.blocks, kScaleTileBlocks);
  Value workTilesPerLine = b.ceilDiv(blockTiles, kRelayoutScalesTiles);
  Value lineTiles = b.ceilDiv(sizes.lines, kSegmentTile);
  Value lineTileOfAll = b.divU(workTile, workTilesPerLine);
  Value thread = b.getThread();
  bool linesFirst = problem.sizes.lineStride == 1;
  Value inTile = linesFirst ? b.remU(thread, kInterleavedLines)
                            : b.divU(thread, kRelayoutScalesTiles);
  Value tileOfThread = linesFirst ? b.divU(thread, kInterleavedLines)
                                  : b.remU(thread, kRelayoutScalesTiles);
  Value blockTile =
      b.add(b.mul(b.remU(workTile, workTilesPerLine), kRelayoutScalesTiles),
            tileOfThread);
  Value tile = b.add(b.mul(lineTileOfAll, blockTiles), blockTile);
  Value chunk = b.add(b.mul(tile, kScaleTileBytes),
                      createOffsetInScaleTile(b, inTile, b.i64(0)));
  Value firstLine =
      b.add(b.mul(b.remU(lineTileOfAll, lineTiles), kSegmentTile), inTile);
  b.createIf(b.less(blockTile, blockTiles), [&] {
    moveChunk(b.divU(lineTileOfAll, lineTiles), firstLine,
              b.mul(blockTile, kScaleTileBlocks), chunk);
  });
}

void ScalesBuilder::build() {
  Value lineTiles = b.mul(sizes.matrices, b.ceilDiv(sizes.lines, kSegmentTile));
  Value workTilesPerLine = b.ceilDiv(b.ceilDiv(sizes.blocks, kScaleTileBlocks),
                                     kRelayoutScalesTiles);
  b.forEachWorkTile(b.mul(lineTiles, workTilesPerLine),
                    [&](Value workTile) { moveTiles(workTile); });
}

void fp8moe::buildRelayoutScales(KernelBuilder &b,
                                 const RelayoutScalesProblem &problem) {
  ScalesBuilder(b, problem).build();
}
