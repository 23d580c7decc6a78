//===- KernelCache.cpp - The kernels of a module --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/KernelCache.h"

using namespace mlir;
using namespace mlir::fp8moe;

KernelCache::KernelCache(ModuleOp module, const TargetInfo &target)
    : target(target), parent(module) {
  // Functions, whose names programs take, may have any name.
  SymbolTable symbols(module);
  auto isTaken = [&](StringRef name) {
    return symbols.lookup(name) != nullptr;
  };
  moduleName = "fp8moe_kernels";
  unsigned counter = 0;
  if (isTaken(moduleName))
    moduleName =
        SymbolTable::generateSymbolName<32>(moduleName, isTaken, counter);
}

SymbolRefAttr KernelCache::getOrBuild(StringRef prefix, ArrayRef<Attribute> key,
                                      BuildFn build) {
  MLIRContext *context = parent.getContext();
  SmallVector<Attribute> whole{StringAttr::get(context, prefix)};
  llvm::append_range(whole, key);
  auto identity = ArrayAttr::get(context, whole);
  if (SymbolRefAttr symbol = known.lookup(identity))
    return symbol;
  if (!kernels) {
    OpBuilder builder = OpBuilder::atBlockBegin(parent.getBody());
    kernels = gpu::GPUModuleOp::create(builder, parent.getLoc(), moduleName);
  }
  std::string name = (prefix + "_" + Twine(known.size())).str();
  auto symbol = SymbolRefAttr::get(kernels.getNameAttr(),
                                   {FlatSymbolRefAttr::get(context, name)});
  known[identity] = symbol;
  build(kernels, name, target);
  return symbol;
}
