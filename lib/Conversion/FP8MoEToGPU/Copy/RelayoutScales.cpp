//===- RelayoutScales.cpp - Block scales to and from tiles ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToGPU/Copy/RelayoutScales.h"

#include "FP8MoEToGPU/Common/ScaleTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

static_assert(kScaleTileLines == kSegmentTile &&
              kScaleTileLineBlocks == kScaleTileBlocks);

/// The four blocks of a line in a tile, of which `thread` counts those of all
/// tiles.
static void moveLine(KernelBuilder &b, const RelayoutScalesProblem &problem,
                     const ScaleMatrices<Value> &sizes, Value thread) {
  Value lineTiles = b.ceilDiv(sizes.lines, kScaleTileLines);
  Value blockTiles = b.ceilDiv(sizes.blocks, kScaleTileLineBlocks);
  Value inTile = b.remU(thread, kScaleTileLines);
  Value tile = b.divU(thread, kScaleTileLines);
  Value blockTile = b.remU(tile, blockTiles);
  Value lineTileOfAll = b.divU(tile, blockTiles);
  Value matrix = b.divU(lineTileOfAll, lineTiles);
  Value line =
      b.add(b.mul(b.remU(lineTileOfAll, lineTiles), kScaleTileLines), inTile);
  Value tiled = b.getPointer(problem.toTiles ? 1 : 0);
  Value plain = b.getPointer(problem.toTiles ? 0 : 1);
  Value first = b.mul(blockTile, kScaleTileLineBlocks);
  for (int64_t i : llvm::seq(kScaleTileLineBlocks)) {
    Value block = b.add(first, i);
    Value place = b.offsetBytes(
        tiled, b.add(b.mul(tile, kScaleTileBytes),
                     createOffsetInScaleTile(b, inTile, b.i64(i))));
    Value offset = b.add(
        b.add(b.mul(matrix, sizes.matrixStride), b.mul(line, sizes.lineStride)),
        b.mul(block, sizes.blockStride));
    Value isInside =
        b.bitAnd(b.less(line, sizes.lines), b.less(block, sizes.blocks));
    auto load = [&](Value pointer) {
      return b.load(b.getI8Type(), pointer, /*alignment=*/1, /*readOnly=*/true);
    };
    if (!problem.toTiles) {
      b.createIf(isInside, [&] {
        b.store(load(place), b.offsetBytes(plain, offset), /*alignment=*/1);
      });
      continue;
    }
    // (X6): bytes outside of the matrix are zero.
    Value byte =
        b.createIf(
             isInside, TypeRange(b.getI8Type()),
             [&] {
               return SmallVector<Value>{load(b.offsetBytes(plain, offset))};
             },
             [&] {
               return SmallVector<Value>{
                   arith::ConstantIntOp::create(b, b.getI8Type(), 0)};
             })
            .front();
    b.store(byte, place, /*alignment=*/1);
  }
}

gpu::GPUFuncOp fp8moe::buildRelayoutScales(Location loc,
                                           gpu::GPUModuleOp module,
                                           StringRef name,
                                           const RelayoutScalesProblem &problem,
                                           const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 2;
  signature.sizes = countDynamic(problem.sizes);
  signature.threads = kRelayoutScalesThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  unsigned parameter = 0;
  ScaleMatrices<Value> sizes;
  for (auto [from, to] : llvm::zip_equal(ScaleMatrices<int64_t>::members(),
                                         ScaleMatrices<Value>::members())) {
    int64_t size = problem.sizes.*from;
    sizes.*to =
        ShapedType::isDynamic(size) ? b.getSize(parameter++) : b.i64(size);
  }
  Value tiles =
      b.mul(b.mul(sizes.matrices, b.ceilDiv(sizes.lines, kScaleTileLines)),
            b.ceilDiv(sizes.blocks, kScaleTileLineBlocks));
  Value threads = b.mul(tiles, kScaleTileLines);
  b.forEachWorkTile(
      b.ceilDiv(threads, kRelayoutScalesThreads), [&](Value workTile) {
        Value thread =
            b.add(b.mul(workTile, kRelayoutScalesThreads), b.getThread());
        b.createIf(b.less(thread, threads),
                   [&] { moveLine(b, problem, sizes, thread); });
      });
  return b.getKernel();
}
