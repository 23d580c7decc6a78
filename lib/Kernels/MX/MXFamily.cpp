//===- MXFamily.cpp - Kernels of MX quantizations -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// How a quantization goes over its tensors follows from their strides, so it
/// has no tiles.
class MXFamily : public KernelFamily {
public:
  StringRef getName() const override { return "mx_quantize"; }
  TypeID getWorkID() const override { return TypeID::get<MXWork>(); }
  bool supports(const KernelWork &, const TargetInfo &target) const override {
    // MX data are in the OCP encoding.
    return target.isGPU() && target.fp8 == Fp8Flavour::FN;
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<MXWork>(work);
    int64_t scaleBytes = estimateTensorBytes(known.scales);
    Cost cost = known.isRead
                    ? estimateBytes(
                          estimateTensorBytes(known.data) + scaleBytes, target)
                    : estimateConversion(known.input, known.from, known.data,
                                         known.to, scaleBytes, target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isGeneral() const override { return true; }
};
} // namespace

FP8MOE_DEFINE_ROW(KernelFamily, MXFamily)
