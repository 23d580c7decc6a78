//===- QuantizeLaunch.h - Launches of quantize kernels ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H

#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Quantize/QuantizeInstance.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {
class QuantizeKernel;

/// State and helpers that launches of quantize kernels share.
class QuantizeLaunch {
public:
  QuantizeLaunch(const KernelInstance &instance,
                 const QuantizeOperands &operands, ProgramLowering &lowering)
      : b(instance.op->getLoc(), lowering.getBuilder()),
        problem(operands.problem), sizes(operands.sizes),
        buffers(operands.buffers), lowering(lowering) {}

  Value index(OpFoldResult value) { return HostSize(b, value).getValue(b); }
  int64_t getInputBytes() const {
    return problem.inputType.getIntOrFloatBitWidth() / 8;
  }

  /// Returns the resident blocks of the whole GPU, with `blocks` on each
  /// multiprocessor.
  HostSize countResident(int64_t blocks) {
    Value multiprocessors =
        plan::DeviceAttrOp::create(b, b.getIndexType(),
                                   plan::DeviceAttribute::Multiprocessors)
            .getResult();
    return HostSize(b, multiprocessors) * HostSize(blocks);
  }

  /// Returns the conjunction (i1) of two conditions. A null condition always
  /// holds.
  Value both(Value lhs, Value rhs) {
    return createBoth(b, b.getLoc(), lhs, rhs);
  }

  ImplicitLocOpBuilder b;
  const AxisQuantizeProblem &problem;
  const QuantizeSizes<OpFoldResult> &sizes;
  const QuantizeBuffers &buffers;
  ProgramLowering &lowering;
};

/// Builds the body of a kernel that supports every address, pitch and size.
using GeneralSchedule = function_ref<void(QuantizeKernel &kernel)>;

/// Launches a kernel of `threads` threads a block over `countWorkTiles` (of the
/// number of segments and of columns) work tiles. Builds it if the cache lacks
/// it.
void launchGeneral(
    const QuantizeInstance &instance, StringRef name, int64_t threads,
    GeneralSchedule schedule,
    function_ref<HostSize(const HostSize &, const HostSize &)> countWorkTiles,
    Value when, ProgramLowering &lowering);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
