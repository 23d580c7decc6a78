//===- KernelCache.h - The kernels of a module ------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_KERNELCACHE_H
#define FP8MOE_LIB_KERNELS_PROGRAM_KERNELCACHE_H

#include "fp8moe/Target/TargetInfo.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::fp8moe {

/// The kernels of a module. Kernels with equal keys are built once.
class KernelCache {
public:
  KernelCache(ModuleOp module, const TargetInfo &target);

  /// Adds a kernel of this name to the module.
  using BuildFn = function_ref<void(gpu::GPUModuleOp module, StringRef name,
                                    const TargetInfo &target)>;

  /// Returns the kernel with this key, and builds it at the first request. The
  /// key must determine the kernel completely. The kernel's name begins with
  /// `prefix`.
  SymbolRefAttr getOrBuild(StringRef prefix, ArrayRef<Attribute> key,
                           BuildFn build);

private:
  const TargetInfo &target;
  ModuleOp parent;
  llvm::SmallString<32> moduleName;
  gpu::GPUModuleOp kernels;
  DenseMap<Attribute, SymbolRefAttr> known;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_KERNELCACHE_H
