//===- VerifyTarget.cpp - Code and launches that a target executes --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Instructions of another vendor
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Verifies the features that a launch requires beyond a grid of blocks.
static LogicalResult verifyFeatures(plan::LaunchOp launch,
                                    const TargetInfo &target) {
  auto verify = [&](bool isAsked, Feature feature,
                    StringRef what) -> LogicalResult {
    if (!isAsked || target.has(feature))
      return success();
    return launch.emitOpError(what)
           << ", which " << target.chip
           << " does not have; only targets of kind 'nvvm' do, give this "
              "target a launch without";
  };
  bool hasMaps = llvm::any_of(launch.getArgs().getTypes(),
                              llvm::IsaPred<plan::TensorMapType>);
  if (failed(verify(hasMaps, Feature::TensorMaps, "passes a tensor map")) ||
      failed(verify(launch.getCluster().has_value(), Feature::Clusters,
                    "launches clusters of blocks")) ||
      failed(verify(launch.getProgrammatic(), Feature::ProgrammaticLaunch,
                    "lets blocks begin before earlier kernels have ended")))
    return failure();
  if (launch.getCooperative() && !target.has(Feature::CooperativeLaunch))
    return launch.emitOpError("is cooperative, but target ")
           << target.chip << " runs one block; leave 'cooperative' out";
  return success();
}

static LogicalResult verifyLaunch(plan::LaunchOp launch,
                                  const TargetInfo &target,
                                  const KernelResources *kernel) {
  int64_t threads = 1;
  for (int64_t extent : launch.getBlock()) {
    if (extent > target.maxThreadsPerBlock)
      return launch.emitOpError("has a block extent of ")
             << extent << ", but " << target.chip << " has at most "
             << target.maxThreadsPerBlock << " threads per block";
    threads *= extent;
  }
  if (threads > target.maxThreadsPerBlock)
    return launch.emitOpError("has ")
           << threads << " threads per block, but " << target.chip
           << " has at most " << target.maxThreadsPerBlock;
  if (kernel && kernel->maxThreadsPerBlock &&
      threads > kernel->maxThreadsPerBlock)
    return launch.emitOpError("has ")
           << threads << " threads per block, but '" << kernel->kernel
           << "' is compiled for at most " << kernel->maxThreadsPerBlock
           << "; set the kernel's known_block_size";

  int64_t staticBytes = kernel ? kernel->staticSharedBytes : 0;
  int64_t available = target.sharedMemoryPerBlock - staticBytes;
  if (launch.getSharedBytes() > available)
    return launch.emitOpError("asks for ")
           << launch.getSharedBytes() << " bytes of shared memory, and "
           << staticBytes << " are static, but " << target.chip << " has "
           << target.sharedMemoryPerBlock << " per block";
  return success();
}

LogicalResult mlir::fp8moe::verifyLaunchFeatures(ModuleOp module,
                                                 const TargetInfo &target) {
  WalkResult result = module.walk([&](plan::LaunchOp launch) {
    return WalkResult(verifyFeatures(launch, target));
  });
  return failure(result.wasInterrupted());
}

LogicalResult
mlir::fp8moe::verifyLaunchLimits(ModuleOp module, const TargetInfo &target,
                                 ArrayRef<KernelResources> resources) {
  WalkResult result = module.walk([&](plan::LaunchOp launch) {
    StringRef name = launch.getKernel().getLeafReference().getValue();
    const KernelResources *kernel =
        llvm::find_if(resources, [&](const KernelResources &resource) {
          return resource.kernel == name;
        });
    if (kernel == resources.end())
      kernel = nullptr;
    return WalkResult(verifyLaunch(launch, target, kernel));
  });
  return failure(result.wasInterrupted());
}
