//===- TargetMachine.cpp - LLVM's target machine of a known target --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Code object version 5 is the newest that every ROCm release with gfx942 can
/// load; version 6 adds nothing that one exact chip needs.
static constexpr uint32_t amdCodeObjectVersion = 500;

static void initializeTargets() {
  static bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllDisassemblers();
    return true;
  }();
  (void)initialized;
}

std::unique_ptr<llvm::TargetMachine>
mlir::fp8moe::createTargetMachine(const TargetInfo &target, Location loc) {
  initializeTargets();
  llvm::Triple triple(target.llvmTriple);
  std::string error;
  const llvm::Target *llvmTarget =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget) {
    emitError(loc) << "this LLVM has no code generator for target "
                   << target.chip << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(llvmTarget->createTargetMachine(
      triple, target.llvmCpu, target.llvmFeatures, options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

void mlir::fp8moe::prepareModule(llvm::Module &llvmModule,
                                 llvm::TargetMachine &machine,
                                 const TargetInfo &target) {
  llvmModule.setTargetTriple(machine.getTargetTriple());
  llvmModule.setDataLayout(machine.createDataLayout());
  constexpr llvm::StringLiteral versionFlag = "amdhsa_code_object_version";
  if (target.kind == TargetKind::ROCDL &&
      !llvmModule.getModuleFlag(versionFlag))
    llvmModule.addModuleFlag(llvm::Module::Error, versionFlag,
                             amdCodeObjectVersion);
  if (target.kind == TargetKind::CPU)
    llvmModule.setPICLevel(llvm::PICLevel::BigPIC);
}
