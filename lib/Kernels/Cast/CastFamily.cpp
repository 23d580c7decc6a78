//===- CastFamily.cpp - Kernels of casts by given scales ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Cast/CastWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// How a cast goes over its tensors follows from their strides, so it
/// has no tiles.
class CastFamily : public KernelFamily {
public:
  StringRef getName() const override { return "cast"; }
  TypeID getWorkID() const override { return TypeID::get<CastWork>(); }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return target.isGPU() &&
           (!cast<CastWork>(work).hasBlocks() || target.fp8 == Fp8Flavour::FN);
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<CastWork>(work);
    Cost cost =
        estimateConversion(known.input, known.from, known.result, known.to,
                           estimateTensorBytes(known.scales), target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isGeneral() const override { return true; }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelFamily, CastFamily)
