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

#include "FP8MoEToGPU/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

CDNABlockScales::CDNABlockScales(CDNAMatmulKernel &kernel, const CDNATile &tile)
    : kernel(kernel), b(kernel.b), tile(tile), scalesA(createScales(true)),
      scalesB(createScales(false)) {
  assert(kernel.config.stepBytes == kStageBlocks * kMXBlock &&
         "a lane of a quarter of a stage has a block");
}

CDNABlockScales::Scales CDNABlockScales::createScales(bool isOfA) {
  const GroupedMatmulProblem &problem = kernel.problem;
  BlockScales layout = isOfA ? problem.blockScalesA : problem.blockScalesB;
  int64_t tileLines = isOfA ? kernel.config.rows : kernel.config.columns;
  Value numBlocks =
      b.ceilDiv(kernel.narrow(kernel.sizes.contraction), kMXBlock);
  Value first = isOfA ? tile.row : tile.column;
  if (isOfA && layout == BlockScales::GroupTiles)
    first = tile.scaleRow;
  Value lines = b.minS(isOfA ? tile.rowsLeft : tile.columnsLeft, tileLines);
  Value columns = kernel.narrow(kernel.sizes.columns);

  // Lines are single ones, or those of tiles; `place` is where the tile of the
  // result begins in its first one.
  Value lineBytes = numBlocks, firstLine = first, place = b.i32(0),
        expertLines = columns;
  if (layout != BlockScales::Lines) {
    lineBytes = b.mul(b.ceilDiv(numBlocks, kScaleTileBlocks), kScaleTileBytes);
    firstLine = b.divU(first, kSegmentTile);
    place = b.remU(first, kSegmentTile);
    lines = b.ceilDiv(b.add(place, lines), kSegmentTile);
    expertLines = b.ceilDiv(columns, kSegmentTile);
  }
  Value before = kernel.widen(firstLine);
  // Each expert's scales are a matrix.
  if (!isOfA && problem.hasExperts())
    before = b.add(before,
                   b.mul(kernel.widen(tile.group), kernel.widen(expertLines)));
  Value pointer = isOfA ? kernel.scaleA : kernel.scaleB;
  Value base = b.offsetBytes(pointer, b.mul(before, kernel.widen(lineBytes)));

  for (MatmulHalf half : {MatmulHalf::Rows0, MatmulHalf::Rows1,
                          MatmulHalf::Columns0, MatmulHalf::Columns1}) {
    if (isRowsHalf(half) != isOfA)
      continue;
    for (Value line : createLaneLines(kernel, half)) {
      Value inLine = kernel.laneChunk;
      if (layout != BlockScales::Lines) {
        Value number = b.add(place, line);
        line = b.divU(number, kSegmentTile);
        inLine = createOffsetInScaleTile(b, b.remU(number, kSegmentTile),
                                         kernel.laneChunk);
      }
      offsets[static_cast<int>(half)].push_back(
          b.add(b.mul(line, lineBytes), inLine));
    }
  }
  Value bytes = b.mul(kernel.widen(lines), kernel.widen(lineBytes));
  return {BufferRange(b, base, bytes),
          layout == BlockScales::Lines ? kStageBlocks : kScaleTileBytes};
}

SmallVector<Value> CDNABlockScales::load(MatmulHalf half, Value step) const {
  const Scales &scales = isRowsHalf(half) ? scalesA : scalesB;
  Value isInside =
      b.less(b.mul(kernel.laneChunk, kMXBlock), b.sub(tile.endBytes, step));
  Value uniform =
      b.mul(b.divU(step, kStageBlocks * kMXBlock), scales.stageBytes);
  SmallVector<Value> bytes;
  for (Value offset : offsets[static_cast<int>(half)]) {
    offset = b.select(isInside, offset, BufferRange::kOutside);
    Value byte = scales.range.load(b, b.getI8Type(), offset, uniform);
    // An extension to zeros is an instruction for each, of bytes that no matrix
    // instruction reads.
    Value bytesOfWord =
        LLVM::UndefOp::create(b, VectorType::get(kWordBytes, b.getI8Type()));
    bytesOfWord = LLVM::InsertElementOp::create(b, bytesOfWord, byte, b.i32(0));
    bytes.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), bytesOfWord));
  }
  return bytes;
}
