//===- ScaleFamily.cpp - Kernels of scales --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/KernelFamily.h"
#include "fp8moe/Tuning/Quantize/ScaleWork.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The first half of the kernels that read twice. Which of their tiles it has
/// follows from the sizes.
class ScaleFamily : public KernelFamily {
public:
  StringRef getName() const override { return "scale"; }
  TypeID getWorkID() const override { return TypeID::get<ScaleWork>(); }
  bool supports(const KernelWork &, const TargetInfo &target) const override {
    return target.isGPU();
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<ScaleWork>(work);
    int64_t read = estimateSectorBytes(known.input, known.from,
                                       walkAll(known.input), target);
    Cost cost =
        estimateTraffic(read + estimateTensorBytes(known.scales), target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isTotal() const override { return true; }
};
} // namespace

namespace mlir::fp8moe {
const KernelFamily &getScaleFamily() {
  static const ScaleFamily family;
  return family;
}
} // namespace mlir::fp8moe
