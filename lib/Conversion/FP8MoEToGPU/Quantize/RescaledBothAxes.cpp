//===- RescaledBothAxes.cpp - Columns from quantized rows -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/RescaledBothAxes.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value RescaledKernel::getMagnitude(Value segment, Value column) {
  KernelBuilder &b = getBuilder();
  Value word = b.add(b.mul(segment, columns.sizes.parallel), column);
  return b.offsetBytes(magnitudes, b.mul(word, kWordBytes));
}

SegmentView RescaledKernel::createLines(Value segment) {
  return lines.createSegment(columns.problem.jagged ? getBuilder().i64(0)
                                                    : segment);
}
