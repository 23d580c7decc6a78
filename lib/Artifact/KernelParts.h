//===- KernelParts.h - The kernels of a module by themselves ----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parallel optimization and code generation of kernels. LLVM uses one thread
// per LLVMContext, and kernels are independent. So each kernel gets its own
// module and context.
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

/// The kernels of a module as one part each, in order. Results do not depend on
/// the number of threads.
class KernelParts {
public:
  /// Splits a module. There are no parts if kernels call functions of the
  /// module or share its variables, or if there are fewer than two kernels.
  /// Such a module is processed by one thread.
  explicit KernelParts(const llvm::Module &llvmModule);

  size_t size() const { return kernels.size(); }

  /// Calls `work` on each part, in the threads of `loc`'s context, and returns
  /// the results. Reports fatal errors of LLVM at `loc`, as `runCodeGeneration`
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

/// Serializes a module, to move it from one context to another.
std::string writeBitcode(const llvm::Module &llvmModule);

/// Links modules that `writeBitcode` has serialized into one.
std::unique_ptr<llvm::Module> linkBitcode(ArrayRef<std::string> parts,
                                          llvm::LLVMContext &context);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_KERNELPARTS_H
