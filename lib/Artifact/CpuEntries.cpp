//===- CpuEntries.cpp - Packed entry points of CPU kernels ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Returns the implementation of the kernel that `launch` names, or null after
/// reporting why it cannot be called.
static llvm::Function *findImplementation(plan::LaunchOp launch,
                                          llvm::Module &llvmModule) {
  if (!launch.getKernel().getNestedReferences().empty()) {
    launch.emitError("launches '")
        << launch.getKernel()
        << "', but a kernel of the CPU is a function of the module itself";
    return nullptr;
  }
  StringRef name = launch.getKernel().getRootReference().getValue();
  llvm::Function *function = llvmModule.getFunction(name);
  if (!function || function->isDeclaration()) {
    launch.emitError("launches '") << name << "', which has no body";
    return nullptr;
  }
  if (!function->getReturnType()->isVoidTy()) {
    launch.emitError("launches '")
        << name << "', which returns a value; a kernel writes to its outputs";
    return nullptr;
  }
  return function;
}

/// Creates the entry in place of `implementation`, which loses its name to it.
static void createEntry(llvm::Function &implementation) {
  llvm::Module &llvmModule = *implementation.getParent();
  llvm::LLVMContext &context = llvmModule.getContext();
  std::string name = implementation.getName().str();
  implementation.setName(name + ".impl");
  implementation.setLinkage(llvm::GlobalValue::InternalLinkage);

  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer},
                              /*isVarArg=*/false);
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                       name, llvmModule);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", entry));
  SmallVector<llvm::Value *> arguments;
  for (const llvm::Argument &parameter : implementation.args()) {
    llvm::Value *slot = builder.CreateConstInBoundsGEP1_64(
        pointer, entry->getArg(0), parameter.getArgNo());
    llvm::Value *address = builder.CreateLoad(pointer, slot);
    arguments.push_back(builder.CreateLoad(parameter.getType(), address));
  }
  builder.CreateCall(&implementation, arguments);
  builder.CreateRetVoid();
}

LogicalResult mlir::fp8moe::createCpuEntries(ModuleOp module,
                                             llvm::Module &llvmModule) {
  llvm::SetVector<llvm::Function *> implementations;
  WalkResult result = module.walk([&](plan::LaunchOp launch) {
    llvm::Function *function = findImplementation(launch, llvmModule);
    if (!function)
      return WalkResult::interrupt();
    implementations.insert(function);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (llvm::Function &function : llvmModule)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  for (llvm::Function *function : implementations)
    createEntry(*function);
  return success();
}
