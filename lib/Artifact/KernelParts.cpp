//===- KernelParts.cpp - The kernels of a module by themselves ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelParts.h"
#include "LLVMErrors.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"

using namespace mlir;
using namespace mlir::fp8moe;

bool mlir::fp8moe::isKernel(const llvm::Function &function) {
  return function.getCallingConv() == llvm::CallingConv::PTX_Kernel ||
         function.getCallingConv() == llvm::CallingConv::AMDGPU_KERNEL;
}

/// Adds the functions whose instructions use the value, also in constants, and
/// null where a variable's initial value does.
static void addUsers(const llvm::Value &value,
                     SmallPtrSetImpl<const llvm::Function *> &functions) {
  for (const llvm::User *user : value.users()) {
    if (auto *instruction = dyn_cast<llvm::Instruction>(user))
      functions.insert(instruction->getFunction());
    else if (isa<llvm::GlobalValue>(user))
      functions.insert(nullptr);
    else
      addUsers(*user, functions);
  }
}

/// Whether each kernel can be taken from the others.
static bool isSeparable(const llvm::Module &llvmModule) {
  if (!llvmModule.alias_empty() || !llvmModule.ifunc_empty())
    return false;
  for (const llvm::Function &function : llvmModule)
    if (!function.isDeclaration() &&
        (!isKernel(function) || !function.use_empty()))
      return false;
  for (const llvm::GlobalVariable &variable : llvmModule.globals()) {
    if (variable.isDeclaration())
      continue;
    SmallPtrSet<const llvm::Function *, 2> users;
    addUsers(variable, users);
    if (users.size() != 1 || users.contains(nullptr))
      return false;
  }
  return true;
}

KernelParts::KernelParts(const llvm::Module &llvmModule) {
  if (!isSeparable(llvmModule))
    return;
  for (const llvm::Function &function : llvmModule)
    if (!function.isDeclaration())
      kernels.push_back(function.getName().str());
  if (kernels.size() < 2)
    kernels.clear();
  else
    bitcode = writeBitcode(llvmModule);
}

/// The kernel and what it refers to. Bodies of other kernels are not read.
std::unique_ptr<llvm::Module>
KernelParts::load(size_t number, llvm::LLVMContext &context) const {
  std::unique_ptr<llvm::Module> whole =
      llvm::cantFail(llvm::getLazyBitcodeModule(
          llvm::MemoryBufferRef(bitcode, "kernels"), context));
  auto part = std::make_unique<llvm::Module>("kernels", context);
  part->setTargetTriple(whole->getTargetTriple());
  part->setDataLayout(whole->getDataLayout());
  // The linker takes the functions that are declared and missing.
  const llvm::Function *kernel = whole->getFunction(kernels[number]);
  llvm::Function::Create(kernel->getFunctionType(),
                         llvm::GlobalValue::ExternalLinkage, kernels[number],
                         *part);
  if (llvm::Linker(*part).linkInModule(std::move(whole),
                                       llvm::Linker::LinkOnlyNeeded))
    return nullptr;
  return part;
}

FailureOr<SmallVector<std::string>> KernelParts::map(
    Location loc,
    function_ref<FailureOr<std::string>(llvm::Module &)> work) const {
  SmallVector<std::string> results(size());
  auto workOn = [&](size_t number) -> LogicalResult {
    llvm::LLVMContext context;
    DiagnosticScope diagnostics(context, loc);
    std::unique_ptr<llvm::Module> part = load(number, context);
    if (!part)
      return failure();
    FailureOr<std::string> result = work(*part);
    if (failed(result) || diagnostics.hadError())
      return failure();
    results[number] = std::move(*result);
    return success();
  };
  if (failed(failableParallelForEachN(
          loc.getContext(), 0, size(), [&](size_t number) {
            return runCodeGeneration(loc, [&] { return workOn(number); });
          })))
    return failure();
  return results;
}

std::string mlir::fp8moe::writeBitcode(const llvm::Module &llvmModule) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  // Some optimizations follow the order of uses.
  llvm::WriteBitcodeToFile(llvmModule, os, /*ShouldPreserveUseListOrder=*/true);
  return bytes;
}

std::unique_ptr<llvm::Module>
mlir::fp8moe::linkBitcode(ArrayRef<std::string> parts,
                          llvm::LLVMContext &context) {
  auto whole = std::make_unique<llvm::Module>("kernels", context);
  llvm::Linker linker(*whole);
  for (StringRef part : parts)
    if (linker.linkInModule(llvm::cantFail(llvm::parseBitcodeFile(
            llvm::MemoryBufferRef(part, "kernels"), context))))
      return nullptr;
  return whole;
}
