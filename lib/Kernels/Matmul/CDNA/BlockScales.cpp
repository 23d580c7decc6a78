//===- BlockScales.cpp - Scales of blocks that a wave multiplies ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// v_mfma_scale_f32_16x16x128 multiplies every 32 elements of the contraction of
// a row or column by a power of two, whose byte a lane has in a register: that
// of block q is with the lanes of the q-th 16. So a lane loads a byte for each
// fragment and stage.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

CDNABlockScales::CDNABlockScales(CDNAMatmulKernel &kernel, const CDNATile &tile)
    : kernel(kernel), b(kernel.b), tile(tile), scalesA(createScales(true)),
      scalesB(createScales(false)) {
  assert(kernel.config.stepBytes == kStageBlocks * kMXBlock &&
         "a lane of a quarter of a stage has a block");
}

Value CDNABlockScales::createLineBytes(BlockScales layout) {
  if (!kernel.problem.isMGrouped()) {
    Value tiles =
        createGroupScaleTiles(b, kernel.sizes.contraction, kernel.sizes.groups);
    return b.mul(b.narrow(tiles), kScaleTileBytes);
  }
  Value numBlocks = b.ceilDiv(b.narrow(kernel.sizes.contraction), kMXBlock);
  if (layout == BlockScales::Lines)
    return numBlocks;
  return b.mul(b.ceilDiv(numBlocks, kScaleTileBlocks), kScaleTileBytes);
}

CDNABlockScales::Scales CDNABlockScales::createScales(bool isOfA) {
  const GroupedMatmulProblem &problem = kernel.problem;
  BlockScales layout = isOfA ? problem.blockScalesA : problem.blockScalesB;
  Value lineBytes = createLineBytes(layout);
  Value first = tile.getFirst(isOfA);
  if (isOfA && problem.isMGrouped() && layout == BlockScales::GroupTiles)
    first = tile.scaleRow;
  Value lines = b.minS(tile.getLeft(isOfA), kernel.config.getLines(isOfA));
  Value columns = b.narrow(kernel.sizes.columns);

  // Lines are single ones, or those of tiles; `place` is where the tile of the
  // result begins in its first one.
  Value firstLine = first, place = b.i32(0), expertLines = columns;
  if (layout != BlockScales::Lines) {
    firstLine = b.divU(first, kSegmentTile);
    place = b.remU(first, kSegmentTile);
    lines = b.ceilDiv(b.add(place, lines), kSegmentTile);
    expertLines = b.ceilDiv(columns, kSegmentTile);
  }
  Value before = b.widen(firstLine);
  // Each expert's scales are a matrix.
  if (!isOfA && problem.hasExperts()) {
    Value group = b.widen(tile.group);
    before = b.add(before, b.mul(group, b.widen(expertLines)));
  }
  Value pointer = isOfA ? kernel.scaleA : kernel.scaleB;
  // Scales of a group of the contraction begin inside each line.
  Value inLine = b.widen(b.mul(tile.firstScaleTile, kScaleTileBytes));
  Value pitch = b.widen(lineBytes);
  Value base = b.offsetBytes(pointer, b.add(b.mul(before, pitch), inLine));

  Scales scales;
  for (bool isSecond : {false, true})
    for (Value line : createLaneLines(kernel, {isOfA, isSecond})) {
      Value block = kernel.laneChunk;
      if (layout != BlockScales::Lines) {
        Value number = b.add(place, line);
        line = b.divU(number, kSegmentTile);
        block = createOffsetInScaleTile(b, b.remU(number, kSegmentTile),
                                        kernel.laneChunk);
      }
      scales.offsets[isSecond].push_back(b.add(b.mul(line, lineBytes), block));
    }
  Value bytes = b.sub(b.mul(b.widen(lines), pitch), inLine);
  scales.range = BufferRange(b, base, bytes);
  scales.stageBytes =
      layout == BlockScales::Lines ? kStageBlocks : kScaleTileBytes;
  return scales;
}

SmallVector<Value> CDNABlockScales::load(MatmulHalf half, Value step) const {
  const Scales &scales = half.isRows ? scalesA : scalesB;
  SmallVector<Value> laneOffsets = scales.offsets[half.isSecond];
  BufferRange range =
      excludeBehindEnd(kernel, tile, scales.range,
                       b.mul(kernel.laneChunk, kMXBlock), step, laneOffsets);
  Value uniform =
      b.mul(b.divU(step, kStageBlocks * kMXBlock), scales.stageBytes);
  SmallVector<Value> bytes;
  for (Value offset : laneOffsets) {
    Value byte = range.load(b, b.getI8Type(), offset, uniform);
    // An extension to zeros is an instruction for each, of bytes that no matrix
    // instruction reads.
    Value bytesOfWord =
        LLVM::UndefOp::create(b, VectorType::get(kWordBytes, b.getI8Type()));
    bytes.push_back(
        LLVM::InsertElementOp::create(b, bytesOfWord, byte, b.i32(0)));
  }
  return bytes;
}

Value CDNABlockScales::getWord(Value bytes) const {
  return LLVM::BitcastOp::create(b, b.getI32Type(), bytes);
}
