//===- LowerMatrix.cpp - Matrix units of kernels to NVVM ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

// fp8moe_kernel.wgmma_wait 1 --> nvvm.wgmma.wait.group.sync.aligned 1
static void lowerWgmmaWait(kernel::WgmmaWaitOp op, ImplicitLocOpBuilder &b) {
  NVVM::WgmmaWaitGroupSyncOp::create(b, static_cast<uint64_t>(op.getPending()));
}

static StringRef getTypeName(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return "e4m3";
  return isa<Float8E5M2Type>(type) ? "e5m2" : "bf16";
}

/// "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3".
static std::string getMnemonic(kernel::WgmmaOp op) {
  constexpr int64_t bits = 32 * 8;
  Type a = op.getAType(), b = op.getBType();
  return ("wgmma.mma_async.sync.aligned.m64n" + Twine(op.getColumns()) + "k" +
          Twine(bits / a.getIntOrFloatBitWidth()) + ".f32." + getTypeName(a) +
          "." + getTypeName(b))
      .str();
}

static SmallVector<Value> unpack(ImplicitLocOpBuilder &b, Value accumulators) {
  auto type = cast<LLVM::LLVMStructType>(accumulators.getType());
  SmallVector<Value> values;
  for (int64_t i : llvm::seq<int64_t>(type.getBody().size()))
    values.push_back(LLVM::ExtractValueOp::create(b, accumulators, i));
  return values;
}

/// Results in registers, and inputs that are tied to them.
static std::string getTiedConstraints(size_t count) {
  std::string constraints;
  for (size_t i = 0; i < count; ++i)
    constraints += "=f,";
  for (size_t i : llvm::seq(count))
    constraints += std::to_string(i) + (i + 1 < count ? "," : "");
  return constraints;
}

/// Operands are the accumulators, which are results too, then both descriptors
/// and "accumulate". Tied inputs have numbers too. Signs of both operands are
/// kept; bf16 operands can also be MN-major.
static std::string getAssembly(kernel::WgmmaOp op, int64_t count) {
  std::string registers;
  for (int64_t i : llvm::seq(count))
    registers += (i ? ", $" : "$") + std::to_string(i);
  std::string majors;
  if (op.getAType().isBF16())
    majors = (", " + Twine(int(op.getMnMajorA())) + ", " +
              Twine(int(op.getMnMajorB())))
                 .str();
  return ("{\n.reg .pred p;\nsetp.ne.b32 p, $" + Twine(2 * count + 2) +
          ", 0;\n" + getMnemonic(op) + " {" + registers + "}, $" +
          Twine(2 * count) + ", $" + Twine(2 * count + 1) + ", p, 1, 1" +
          majors + ";\n}\n")
      .str();
}

// fp8moe_kernel.wgmma --> llvm.inline_asm "wgmma.mma_async ..."
//
// nvvm.wgmma.mma_async takes "accumulate" as an attribute only; a loop whose
// first step ignores the accumulators needs a value.
static Value lowerWgmma(kernel::WgmmaOp op, ImplicitLocOpBuilder &b) {
  SmallVector<Value> operands = unpack(b, op.getAccumulators());
  size_t count = operands.size();
  operands.append({op.getA(), op.getB(), op.getAccumulate()});
  return createAssembly(b, op.getType(), operands, getAssembly(op, count),
                        getTiedConstraints(count) + ",l,l,r")
      .getRes();
}

// fp8moe_kernel.wgmma_results %sums --> llvm.inline_asm "", "=f,...,0,..."
//
// LLVM does not see that accumulators depend on the wait before, and would use
// them earlier.
static Value lowerWgmmaResults(kernel::WgmmaResultsOp op,
                               ImplicitLocOpBuilder &b) {
  SmallVector<Value> operands = unpack(b, op.getAccumulators());
  return createAssembly(b, op.getType(), operands, "",
                        getTiedConstraints(operands.size()))
      .getRes();
}

void fp8moe::populateMatrixPatterns(RewritePatternSet &patterns) {
  kernel::addLowerings(
      patterns,
      kernel::replaceBy<kernel::WgmmaFenceOp, NVVM::WgmmaFenceAlignedOp>,
      lowerWgmma,
      kernel::replaceBy<kernel::WgmmaCommitOp, NVVM::WgmmaGroupSyncAlignedOp>,
      lowerWgmmaWait, lowerWgmmaResults);
}
