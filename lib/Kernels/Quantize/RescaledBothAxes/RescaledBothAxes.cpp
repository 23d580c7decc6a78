//===- RescaledBothAxes.cpp - Columns from quantized rows -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledBothAxes.h"

#include "Kernels/Quantize/RescaledBothAxes/RescaledTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value RescaledKernel::getMagnitude(Value segment, Value column) {
  KernelBuilder &b = getBuilder();
  Value word = b.add(b.mul(segment, columns.sizes.parallel), column);
  return b.offsetBytes(magnitudes, b.mul(word, kWordBytes));
}

void RescaledKernel::enlarge(Value pointer, Value found, Value magnitude) {
  KernelBuilder &b = getBuilder();
  KernelBuilder::Step step(b, "enlarge_magnitude");
  Value isLarger = b.compare(arith::CmpIPredicate::ugt, magnitude, found);
  b.createIf(isLarger, [&] {
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, pointer, magnitude,
                              LLVM::AtomicOrdering::monotonic,
                              b.getTarget().getDeviceScope());
  });
}

/// Words: the segment and its bounds, then its first row in tiles.
void RescaledKernel::storeFoundTile(Value lineTile) {
  KernelBuilder &b = getBuilder();
  KernelBuilder::Step step(b, "store_found_tile");
  const AxisQuantizeProblem &problem = columns.problem;
  SegmentTiling tiling{rescaled::kTile, /*emptyHaveTile=*/true};
  tiling.outputPadding = problem.outputPadding;
  if (problem.outputPadding <= 1)
    tiling.alignment = rescaled::kLineAlignment;
  FoundSegment found =
      findSegment(b, columns.getOffsets(), lineTile, columns.sizes.segments,
                  columns.sizes.reduction, tiling);
  Value pointer = b.offsetBytes(foundTiles, b.mul(lineTile, kFoundTileBytes));
  b.createIf(b.equal(b.getThread(), 0), [&] {
    b.store(b.packWords({b.narrow(found.index), b.narrow(found.bounds.start),
                         b.narrow(found.bounds.length),
                         b.narrow(found.bounds.paddedStart)}),
            pointer, kVectorBytes);
    b.storeWord(b.narrow(found.firstTileRow),
                b.offsetBytes(pointer, kVectorBytes));
  });
}

FoundSegment RescaledKernel::loadFoundTile(Value lineTile) {
  KernelBuilder &b = getBuilder();
  KernelBuilder::Step step(b, "load_found_tile");
  Value pointer = b.offsetBytes(foundTiles, b.mul(lineTile, kFoundTileBytes));
  SmallVector<Value> words = b.unpackWords(
      b.load(b.getWordsType(), pointer, kVectorBytes, /*readOnly=*/true));
  Value firstTileRow =
      b.loadWord(b.offsetBytes(pointer, kVectorBytes), /*readOnly=*/true);
  return {b.widen(b.uniform(words[0])),
          b.widen(b.uniform(firstTileRow)),
          {b.widen(b.uniform(words[1])), b.widen(b.uniform(words[2])),
           b.widen(b.uniform(words[3]))}};
}

SegmentView RescaledKernel::createLines(Value segment) {
  return lines.createSegment(columns.problem.jagged ? getBuilder().i64(0)
                                                    : segment);
}
