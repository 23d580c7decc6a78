//===- LowerMfma.cpp - Matrix products of waves to ROCDL ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// "fp8" or "bf8", as the names of instructions say it.
static StringRef getElementName(Type type) {
  return getFp8Format(type) == Fp8Format::E4M3 ? "fp8" : "bf8";
}

/// How v_mfma_f32_16x16x128_f8f6f4 numbers its formats.
static int64_t getFormatNumber(Type type) {
  return getFp8Format(type) == Fp8Format::E4M3 ? 0 : 1;
}

/// The instruction that multiplies elements of these types.
static std::string getInstruction(kernel::MfmaOp op) {
  bool isLarge = op.getEdge() == 32;
  if (op.getAType().isBF16())
    return isLarge ? "f32.32x32x8bf16.1k" : "f32.16x16x32.bf16";
  if (!isLarge)
    return "scale.f32.16x16x128.f8f6f4";
  return ("f32.32x32x16." + getElementName(op.getAType()) + "." +
          getElementName(op.getBType()))
      .str();
}

// fp8moe_kernel.mfma %a, %b, %c : f8E4M3FNUZ, f8E5M2FNUZ, i64, vector<16xf32>
//   -->
// rocdl.mfma.f32.32x32x16.fp8.bf8 %a, %b, %c, 0, 0, 0
//
// Scales that are zero constants select the instruction without scales. Each
// has a number before it: which byte it is.
static Value lowerMfma(kernel::MfmaOp op, ImplicitLocOpBuilder &b) {
  Value zero = createI32(b, 0);
  SmallVector<Value> operands{op.getA(), op.getB(), op.getAccumulators()};
  std::string instruction = getInstruction(op);
  if (StringRef(instruction).starts_with("scale")) {
    SmallVector<Value> scales(op.getScales());
    scales.resize(2, zero);
    operands.append({createI32(b, getFormatNumber(op.getAType())),
                     createI32(b, getFormatNumber(op.getBType())), zero,
                     scales[0], zero, scales[1]});
  } else {
    operands.append(3, zero);
  }
  OperationState state(op.getLoc(), "rocdl.mfma." + instruction);
  state.addOperands(operands);
  state.addTypes(op.getType());
  return b.create(state)->getResult(0);
}

void fp8moe::populateMfmaPatterns(RewritePatternSet &patterns) {
  kernel::addLowerings(patterns, lowerMfma);
}
