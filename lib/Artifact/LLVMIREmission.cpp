//===- LLVMIREmission.cpp - From the LLVM dialect to optimized LLVM IR ----===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "KernelParts.h"
#include "LLVMErrors.h"
#include "fp8moe/Artifact/CodeEmission.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fp8moe;

void mlir::fp8moe::registerArtifactTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  registerROCDLDialectTranslation(registry);
}

/// The operation with the kernels of a GPU target, or null after an error. A
/// module without kernels has none; `hasKernels` tells the cases apart.
static FailureOr<gpu::GPUModuleOp> findGPUModule(ModuleOp module) {
  gpu::GPUModuleOp found;
  for (auto gpuModule : module.getOps<gpu::GPUModuleOp>()) {
    if (found) {
      InFlightDiagnostic diag =
          gpuModule.emitError("an artifact has one device binary, but this is "
                              "the second gpu.module; move all kernels into "
                              "one");
      diag.attachNote(found.getLoc()) << "the first one is here";
      return failure();
    }
    found = gpuModule;
  }
  return found;
}

/// Translates to LLVM IR, and reports at `op` what LLVM's verifier says about
/// it: MLIR knows nothing of the arguments that an intrinsic allows.
static std::unique_ptr<llvm::Module> translate(Operation *op,
                                               llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(
      op, context, "kernels", /*disableVerification=*/true);
  if (!llvmModule)
    return nullptr;
  std::string reason;
  llvm::raw_string_ostream os(reason);
  if (!llvm::verifyModule(*llvmModule, &os))
    return llvmModule;
  op->emitError("becomes LLVM IR that is not valid: ")
      << StringRef(reason).rtrim();
  return nullptr;
}

static std::unique_ptr<llvm::Module> translateGPU(ModuleOp module,
                                                  llvm::LLVMContext &context) {
  FailureOr<gpu::GPUModuleOp> gpuModule = findGPUModule(module);
  if (failed(gpuModule))
    return nullptr;
  // A program of views alone launches nothing; its binary is empty.
  if (!*gpuModule)
    return std::make_unique<llvm::Module>("kernels", context);
  return translate(*gpuModule, context);
}

/// Translates what is left of the module without the parts that are not code of
/// the CPU.
static std::unique_ptr<llvm::Module> translateCPU(ModuleOp module,
                                                  llvm::LLVMContext &context) {
  OwningOpRef<ModuleOp> code = module.clone();
  for (Operation &op : llvm::make_early_inc_range(*code->getBody()))
    if (isa<plan::ProgramOp>(op))
      op.erase();
  return translate(*code, context);
}

/// Leaves the kernels as the only entries, so that helpers are inlined and
/// dropped.
static void internalizeHelpers(llvm::Module &llvmModule) {
  for (llvm::Function &function : llvmModule)
    if (!function.isDeclaration() && !isKernel(function))
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
}

/// A device binary is complete: nothing is resolved when it is loaded.
static LogicalResult verifyNoUnresolvedCalls(const llvm::Module &llvmModule,
                                             Location loc) {
  for (const llvm::Function &function : llvmModule) {
    if (!function.isDeclaration() || function.isIntrinsic() ||
        function.use_empty())
      continue;
    return emitError(loc) << "the kernels call '" << function.getName()
                          << "', which no device library provides; lower the "
                             "operation that it comes from to instructions";
  }
  return success();
}

static void optimize(llvm::Module &llvmModule, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loopAnalyses;
  llvm::FunctionAnalysisManager functionAnalyses;
  llvm::CGSCCAnalysisManager cgsccAnalyses;
  llvm::ModuleAnalysisManager moduleAnalyses;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(moduleAnalyses);
  builder.registerCGSCCAnalyses(cgsccAnalyses);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functionAnalyses, cgsccAnalyses,
                               moduleAnalyses);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(llvmModule, moduleAnalyses);
}

/// Optimizes each kernel by itself where they can be taken apart. Returns null
/// after an error.
static std::unique_ptr<llvm::Module>
optimizeInParts(std::unique_ptr<llvm::Module> llvmModule,
                llvm::TargetMachine &machine, const TargetInfo &target,
                Location loc) {
  KernelParts parts(*llvmModule);
  if (parts.size() == 0) {
    optimize(*llvmModule, machine);
    return llvmModule;
  }
  auto optimizePart = [&](llvm::Module &part) -> FailureOr<std::string> {
    std::unique_ptr<llvm::TargetMachine> ownMachine =
        createTargetMachine(target, loc);
    if (!ownMachine)
      return failure();
    optimize(part, *ownMachine);
    return writeBitcode(part);
  };
  FailureOr<SmallVector<std::string>> optimized = parts.map(loc, optimizePart);
  if (failed(optimized))
    return nullptr;
  return linkBitcode(*optimized, llvmModule->getContext());
}

std::unique_ptr<llvm::Module>
mlir::fp8moe::emitLLVMIR(ModuleOp module, const TargetInfo &target,
                         const EmissionOptions &options,
                         llvm::LLVMContext &context) {
  TimingScope time = options.time("LLVM passes");
  DiagnosticScope diagnostics(context, module.getLoc());
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(target, module.getLoc());
  if (!machine || failed(verifyVendor(module, target)))
    return nullptr;
  std::unique_ptr<llvm::Module> llvmModule =
      target.isGPU() ? translateGPU(module, context)
                     : translateCPU(module, context);
  if (!llvmModule)
    return nullptr;
  prepareModule(*llvmModule, *machine, target);

  if (target.kind == TargetKind::CPU) {
    if (failed(createCpuEntries(module, *llvmModule)))
      return nullptr;
  } else {
    internalizeHelpers(*llvmModule);
    if (target.kind == TargetKind::ROCDL &&
        failed(linkDeviceLibraries(*llvmModule, target, options.rocmPath,
                                   module.getLoc())))
      return nullptr;
    if (failed(verifyNoUnresolvedCalls(*llvmModule, module.getLoc())))
      return nullptr;
  }
  llvmModule =
      optimizeInParts(std::move(llvmModule), *machine, target, module.getLoc());
  if (!llvmModule)
    return nullptr;
  if (target.kind == TargetKind::CPU)
    moveBFloatsAsIntegers(*llvmModule);
  if (diagnostics.hadError())
    return nullptr;
  return llvmModule;
}

Operation *mlir::fp8moe::findKernel(ModuleOp module, StringRef name) {
  if (Operation *function = module.lookupSymbol(name))
    return function;
  for (auto gpuModule : module.getOps<gpu::GPUModuleOp>())
    if (Operation *function = gpuModule.lookupSymbol(name))
      return function;
  return module;
}
