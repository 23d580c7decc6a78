//===- KernelParts.h - The kernels of a module by themselves ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM works on one module of a context at a time, and kernels have nothing to
// do with each other: each gets a module and a context of its own, so that all
// processors can optimize them and generate their code.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_KERNELPARTS_H
#define FP8MOE_LIB_ARTIFACT_KERNELPARTS_H

#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"

#include <memory>
#include <string>

namespace llvm {
class Function;
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir::fp8moe {

bool isKernel(const llvm::Function &function);

/// The kernels of a module as parts, in their order. The results do not depend
/// on how many threads there are.
class KernelParts {
public:
  /// There are none where kernels call functions of the module or share
  /// variables that it defines, and where one kernel is all there is: such a
  /// module is for one thread.
  explicit KernelParts(const llvm::Module &llvmModule);

  size_t size() const { return kernels.size(); }

  /// The result of `work` for each part, in the threads of the context of
  /// `loc`. Fatal errors of LLVM are reported there, as `runCodeGeneration`
  /// does.
  FailureOr<SmallVector<std::string>>
  map(Location loc,
      function_ref<FailureOr<std::string>(llvm::Module &)> work) const;

private:
  std::unique_ptr<llvm::Module> load(size_t number,
                                     llvm::LLVMContext &context) const;

  SmallVector<std::string> kernels;
  std::string bitcode;
};

/// The module as bitcode, with which it gets from one context to another.
std::string writeBitcode(const llvm::Module &llvmModule);

/// One module of several that `writeBitcode` has written.
std::unique_ptr<llvm::Module> linkBitcode(ArrayRef<std::string> parts,
                                          llvm::LLVMContext &context);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_KERNELPARTS_H
