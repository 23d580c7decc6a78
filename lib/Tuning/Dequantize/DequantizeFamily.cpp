//===- DequantizeFamily.cpp - Kernels of dequantizations ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Dequantize/DequantizeWork.h"
#include "fp8moe/Tuning/KernelFamily.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// How a dequantization goes over its tensors follows from their strides, so it
/// has no tiles.
class DequantizeFamily : public KernelFamily {
public:
  StringRef getName() const override { return "dequantize"; }
  TypeID getWorkID() const override { return TypeID::get<DequantizeWork>(); }
  bool supports(const KernelWork &, const TargetInfo &target) const override {
    return target.isGPU();
  }
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override {
    const auto &known = cast<DequantizeWork>(work);
    Cost cost =
        estimateConversion(known.input, known.from, known.result, known.to,
                           estimateTensorBytes(known.scales), target);
    candidates.push_back({this, {}, cost, ""});
  }
  bool isTotal() const override { return true; }
};
} // namespace

namespace mlir::fp8moe {
const KernelFamily &getDequantizeFamily() {
  static const DequantizeFamily family;
  return family;
}
} // namespace mlir::fp8moe
