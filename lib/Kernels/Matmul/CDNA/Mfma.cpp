//===- Mfma.cpp - The matrix instruction of a wave ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// How many of the 32 bytes that a lane holds one instruction takes.
static int64_t getPartBytes(int64_t edge, Type element) {
  if (edge == 32)
    return 8;
  return element.isBF16() ? 16 : 32;
}

int64_t Mfma::getParts() const { return 32 / getPartBytes(edge, column); }

/// The part of a fragment that one instruction takes, in its type.
Value Mfma::getPart(KernelBuilder &b, const MfmaFragment &fragment,
                    int64_t part) const {
  int64_t bytes = getPartBytes(edge, column);
  if (bytes == 32)
    return LLVM::ShuffleVectorOp::create(
        b, fragment.chunks[0], fragment.chunks[1],
        ArrayRef<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  if (bytes == 16)
    return LLVM::BitcastOp::create(b, VectorType::get(8, b.getBF16Type()),
                                   fragment.chunks[part]);
  Value halves = LLVM::BitcastOp::create(b, VectorType::get(2, b.getI64Type()),
                                         fragment.chunks[part / 2]);
  Value half = vector::ExtractOp::create(b, halves, part % 2);
  if (!column.isBF16())
    return half;
  return LLVM::BitcastOp::create(b, VectorType::get(4, b.getI16Type()), half);
}

Value Mfma::create(KernelBuilder &b, const MfmaFragment &columns,
                   const MfmaFragment &rows, Value accumulator,
                   int64_t part) const {
  SmallVector<Value> scales;
  if (columns.scale || rows.scale)
    for (Value scale : {columns.scale, rows.scale})
      scales.push_back(scale ? scale : b.i32(0));
  return kernel::MfmaOp::create(b, getPart(b, columns, part),
                                getPart(b, rows, part), accumulator, scales,
                                column, row);
}
