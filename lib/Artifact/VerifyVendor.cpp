//===- VerifyVendor.cpp - No instructions of another vendor ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The names that belong to the GPUs of one vendor alone.
struct Vendor {
  TargetKind kind;
  StringLiteral name;
  StringLiteral dialect;
  StringLiteral intrinsics;
};
} // namespace

static constexpr Vendor kVendors[] = {
    {TargetKind::NVVM, "NVIDIA", "nvvm", "llvm.nvvm."},
    {TargetKind::ROCDL, "AMD", "rocdl", "llvm.amdgcn."},
};

/// "operation 'nvvm.barrier0'" if `op` has something of that vendor, or "".
static std::string findPart(Operation *op, const Vendor &vendor) {
  if (op->getName().getDialectNamespace() == vendor.dialect)
    return ("operation '" + op->getName().getStringRef() + "'").str();
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    if (call.getIntrin().starts_with(vendor.intrinsics))
      return ("intrinsic '" + call.getIntrin() + "'").str();
  for (NamedAttribute attr : op->getDiscardableAttrs())
    if (attr.getName().strref().split('.').first == vendor.dialect)
      return ("attribute '" + attr.getName().strref() + "'").str();
  return "";
}

LogicalResult mlir::fp8moe::verifyVendor(Operation *root,
                                         const TargetInfo &target) {
  WalkResult result = root->walk([&](Operation *op) -> WalkResult {
    for (const Vendor &vendor : kVendors) {
      if (vendor.kind == target.kind)
        continue;
      std::string part = findPart(op, vendor);
      if (!part.empty())
        return op->emitError("uses ")
               << part << " of " << vendor.name << "'s GPUs, but the target is "
               << target.chip << " (" << target.description
               << "); compile the kernel for the GPU that it was written for, "
                  "or rewrite it for this one";
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
