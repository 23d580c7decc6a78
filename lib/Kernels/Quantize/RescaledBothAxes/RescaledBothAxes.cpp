//===- RescaledBothAxes.cpp - Columns from quantized rows -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/RescaledBothAxes/RescaledBothAxes.h"

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
  Value isLarger = b.compare(arith::CmpIPredicate::ugt, magnitude, found);
  b.createIf(isLarger, [&] {
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, pointer, magnitude,
                              LLVM::AtomicOrdering::monotonic,
                              b.getHooks().getDeviceScope());
  });
}

SegmentView RescaledKernel::createLines(Value segment) {
  return lines.createSegment(columns.problem.jagged ? getBuilder().i64(0)
                                                    : segment);
}

/// Pointers of a quantization along columns: input, groups, result and scales.
static unsigned countPointers(const AxisQuantizeProblem &columns) {
  return 3 + columns.jagged;
}

KernelSignature
fp8moe::createRescaledSignature(const AxisQuantizeProblem &columns,
                                const AxisQuantizeProblem &lines,
                                unsigned moreSizes) {
  constexpr unsigned kOfLines = 3, kMagnitudes = 1;
  KernelSignature signature;
  signature.pointers = countPointers(columns) + kOfLines + kMagnitudes;
  signature.sizes =
      countDynamic(columns.sizes) + countDynamic(lines.sizes) + moreSizes;
  return signature;
}

RescaledKernel fp8moe::createRescaledKernel(KernelBuilder &b,
                                            const AxisQuantizeProblem &columns,
                                            const AxisQuantizeProblem &lines) {
  unsigned ofColumns = countPointers(columns);
  return {QuantizeKernel(b, columns),
          QuantizeKernel(b, lines, ofColumns, countDynamic(columns.sizes)),
          b.getPointer(ofColumns + 3)};
}

SmallVector<Value> fp8moe::getRescaledPointers(const QuantizeOperands &columns,
                                               const QuantizeOperands &lines,
                                               Value magnitudes) {
  SmallVector<Value> pointers{columns.buffers.input};
  if (columns.problem.jagged)
    pointers.push_back(columns.buffers.offsets);
  pointers.append({columns.buffers.output, columns.buffers.scales,
                   lines.buffers.input, lines.buffers.output,
                   lines.buffers.scales, magnitudes});
  return pointers;
}
