//===- FP8MoEToGPU.cpp - Tensors to kernels and programs ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ProgramLowering.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_CONVERTFP8MOETOGPU
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ConvertFP8MoEToGPU
    : fp8moe::impl::ConvertFP8MoEToGPUBase<ConvertFP8MoEToGPU> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ConvertFP8MoEToGPUBase::getDependentDialects(registry);
    insertTargetDialects(registry);
  }

  void runOnOperation() override;
};
} // namespace

/// Creates the program of a function in its place.
static LogicalResult convert(func::FuncOp func, const TargetInfo &target,
                             KernelCache &kernels, const LoweringTable &table) {
  FailureOr<PlanSignature> signature =
      PlanSignature::create(func, func.getName());
  if (failed(signature))
    return failure();
  if (failed(ProgramLowering(*signature, target, kernels, table).lower(func)))
    return failure();
  func.erase();
  return success();
}

/// Functions are programs or serve them: none is left that a program that was
/// written by hand could launch.
static LogicalResult verifyLaunches(ModuleOp module, const TargetInfo &target) {
  WalkResult result = module.walk([&](plan::LaunchOp launch) {
    if (!SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch,
                                                            launch.getKernel()))
      return WalkResult::advance();
    launch.emitOpError("launches '")
        << launch.getKernel() << "', a function of the host, but kernels for "
        << target.chip
        << " are functions of a 'gpu.module'; move it into one, or compile the "
           "module for target 'cpu'";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

void ConvertFP8MoEToGPU::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<TargetAttr> attribute = requireTargetAttr(module);
  if (failed(attribute))
    return signalPassFailure();
  const TargetInfo &target = attribute->getInfo();
  if (!target.isGPU()) {
    module.emitError("target '")
        << target.chip
        << "' is not a GPU; use convert-fp8moe-to-loops, or name a GPU";
    return signalPassFailure();
  }
  if (failed(verifyLaunches(module, target)))
    return signalPassFailure();
  KernelCache kernels(module, target);
  LoweringTable table = createLoweringTable();
  for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (func.isPublic() && failed(convert(func, target, kernels, table)))
      return signalPassFailure();
  // Private functions only serve public ones, which have become programs.
  for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    func.erase();
}
