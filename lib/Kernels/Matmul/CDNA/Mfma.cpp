//===- Mfma.cpp - The matrix instruction of a wave ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Mfma.h"

#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// How many of the 32 bytes that a lane holds one instruction takes.
static int64_t getPartBytes(int64_t edge, MatrixElement element) {
  if (edge == 32)
    return 8;
  return element == MatrixElement::BF16 ? 16 : 32;
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
  bool isBF16 = column == MatrixElement::BF16;
  if (bytes == 16)
    return LLVM::BitcastOp::create(b, VectorType::get(8, b.getBF16Type()),
                                   fragment.chunks[part]);
  Value halves = LLVM::BitcastOp::create(b, VectorType::get(2, b.getI64Type()),
                                         fragment.chunks[part / 2]);
  Value half = LLVM::ExtractElementOp::create(b, halves, b.i32(part % 2));
  if (!isBF16)
    return half;
  return LLVM::BitcastOp::create(b, VectorType::get(4, b.getI16Type()), half);
}

/// "fp8" or "bf8", as the names of instructions say it.
static StringRef getElementName(MatrixElement element) {
  return element == MatrixElement::E4M3 ? "fp8" : "bf8";
}

/// How v_mfma_f32_16x16x128_f8f6f4 numbers its formats.
static int64_t getFormatNumber(MatrixElement element) {
  return element == MatrixElement::E4M3 ? 0 : 1;
}

Value Mfma::create(KernelBuilder &b, const MfmaFragment &columns,
                   const MfmaFragment &rows, Value accumulator,
                   int64_t part) const {
  Type type = accumulator.getType();
  Value zero = b.i32(0);
  SmallVector<Value> operands{getPart(b, columns, part), getPart(b, rows, part),
                              accumulator};
  auto build = [&](const Twine &name, ArrayRef<Value> modifiers) {
    operands.append(modifiers.begin(), modifiers.end());
    OperationState state(b.getLoc(), ("rocdl.mfma." + name).str());
    state.addOperands(operands);
    state.addTypes(type);
    return b.create(state)->getResult(0);
  };
  bool isBF16 = column == MatrixElement::BF16;
  if (edge == 32 && isBF16)
    return build("f32.32x32x8bf16.1k", {zero, zero, zero});
  if (edge == 32)
    return build("f32.32x32x16." + getElementName(column) + "." +
                     getElementName(row),
                 {zero, zero, zero});
  if (isBF16)
    return build("f32.16x16x32.bf16", {zero, zero, zero});
  // Scales that are zero constants select the instruction without scales. Each
  // has a number before it: which byte it is.
  return build("scale.f32.16x16x128.f8f6f4",
               {b.i32(getFormatNumber(column)), b.i32(getFormatNumber(row)),
                zero, columns.scale ? columns.scale : zero, zero,
                rows.scale ? rows.scale : zero});
}
