//===- ScaleTiles.cpp - Where the bytes of block scales lie ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/ScaleTiles.h"
#include "fp8moe/Conversion/F32Bits.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kNaNByte = 255;

/// Returns the bits of the power of two without the lower `dropped` ones of an
/// f32.
static Value createScaleBits(KernelBuilder &b, Value byte, int64_t dropped) {
  // 2^-127 is subnormal.
  Value power =
      b.select(b.equal(byte, 0), b.i32((f32::kMantissaMask + 1) / 2 >> dropped),
               b.shiftLeft(byte, f32::kMantissaBits - dropped));
  return b.select(b.equal(byte, kNaNByte), b.i32(f32::kQuietNaN >> dropped),
                  power);
}

Value fp8moe::createBlockScaleBF16Bits(KernelBuilder &b, Value byte) {
  return createScaleBits(b, byte, /*dropped=*/16);
}

Value fp8moe::createBlockScale(KernelBuilder &b, Value byte) {
  return b.bitcast(b.getF32Type(), createScaleBits(b, byte, /*dropped=*/0));
}

Value fp8moe::createOffsetInScaleTile(KernelBuilder &b, Value lineInTile,
                                      Value blockInTile) {
  return b.add(
      b.add(b.mul(b.remU(lineInTile, kInterleavedLines),
                  kScaleTileBytes / kInterleavedLines),
            b.mul(b.divU(lineInTile, kInterleavedLines), kScaleTileBlocks)),
      blockInTile);
}

Value fp8moe::createGroupScaleTiles(KernelBuilder &b, Value extent,
                                    Value groups) {
  Value room = b.mul(groups, kSegmentTile - 1);
  return b.ceilDiv(b.add(extent, room), kSegmentTile);
}

Value fp8moe::createScaleTile(KernelBuilder &b, Value scales,
                              SegmentTiles &tiles, const SegmentTile &tile,
                              bool linesAreRows) {
  Value blockTiles =
      linesAreRows ? tiles.countColumnTiles() : tiles.countRowTiles();
  Value lineTiles =
      linesAreRows ? tiles.countRowTiles() : tiles.countColumnTiles();
  Value lineTile =
      b.add(b.mul(tile.batch, lineTiles), tile.get(linesAreRows).index);
  Value index =
      b.add(b.mul(lineTile, blockTiles), tile.get(!linesAreRows).index);
  return b.offsetBytes(scales, b.mul(index, kScaleTileBytes));
}
