//===- Steps.h - Functions of passes on tensors -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_STEPS_H
#define FP8MOE_LIB_TRANSFORMS_STEPS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Target/TargetInfo.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

/// Returns the options of a remark of the layout passes, whose kind of decision
/// is `name`. Remarks go through MLIR's remark engine, and cost nothing unless
/// enabled (`--remarks-filter=fp8moe-layout`).
inline remark::RemarkOpts layoutRemark(StringRef name) {
  return remark::RemarkOpts::name(name).category(kLayoutRemarks);
}

/// Describes the producer of a tensor, or a reader, for users: "argument #0",
/// "mx_quantize", "result #1 of the function".
std::string describeProducer(Value value);
std::string describeReader(OpOperand &use);

/// A pass on functions with a body, for the target of their module.
template <typename Base> struct TargetPass : Base {
  using Base::Base;

  void runOnOperation() final {
    FunctionOpInterface function = this->getOperation();
    if (function.isExternal())
      return this->markAllAnalysesPreserved();
    FailureOr<TargetAttr> target = requireTargetAttr(function);
    if (failed(target))
      return this->signalPassFailure();
    run(function, target->getInfo());
  }
  virtual void run(FunctionOpInterface function, const TargetInfo &target) = 0;
};

/// Erases unreachable blocks, orders blocks after those that dominate them, and
/// returns whether anything changed. Only in unreachable blocks can views and
/// copies form cycles, on which walks along chains would not end. Passes that
/// walk a function rely on operands' producers coming first.
bool normalizeBlocks(FunctionOpInterface function);

/// Exchanges the operands of matmuls that write columns of their results, which
/// GPU kernels do not support. Returns whether any matmul changed.
bool exchangeOperands(FunctionOpInterface function, const TargetInfo &target);

/// Lets a kernel that reads a reshape read the reshape's input, if the program
/// views the results back into the input's shape. The results are reshaped
/// instead. Returns the new kernel, or null if nothing changed.
Operation *sinkReshapeBelow(KernelOpInterface kernel);

/// Lets a kernel that works on slices of a transposed tensor, or of copies of
/// one, read the tensor itself. The results are transposed instead. Returns the
/// new kernel, or null if nothing changed.
Operation *sinkTransposeBelow(KernelOpInterface kernel);

/// Replaces scales, casts and quantizations by results of earlier ones in the
/// same block that have the same values. A result in another layout is copied,
/// if predicted to be faster. Returns the number of replaced operations.
/// `explain` emits remarks on those that stay.
unsigned mergeQuantizations(FunctionOpInterface function,
                            const TargetInfo &target, bool explain);

/// Whether MX matmuls are expanded to bf16 on the target: a GPU with OCP FP8
/// whose matrix instructions do not support block scales.
inline bool expandsMXMatmuls(const TargetInfo &target) {
  return target.isGPU() && target.fp8 == Fp8Flavour::FN &&
         !target.has(Feature::BlockScaledWaves);
}

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_STEPS_H
