//===- QuantizeLaunch.h - Launches of quantize kernels ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H

#include "Kernels/Program/LoweringTable.h"
#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Quantize/QuantizeSizes.h"

namespace mlir::fp8moe {
class QuantizeKernel;

/// The buffers of a quantization; `offsets` only when it is jagged.
struct QuantizeBuffers {
  Value input, offsets, output, scales;
};

/// A quantization along one axis.
struct QuantizeOperands {
  AxisQuantizeProblem problem;
  QuantizeSizes<OpFoldResult> sizes;
  QuantizeBuffers buffers;
};

/// A launch of a kernel along one axis.
class QuantizeInstance : public KernelInstanceBase<QuantizeInstance> {
public:
  QuantizeInstance(Operation *op, const QuantizeOperands &operands,
                   TileAttrInterface tile, QuantizeKind kind,
                   Value isNeeded = {})
      : KernelInstanceBase(op, tile), operands(operands), kind(kind),
        isNeeded(isNeeded) {}

  const QuantizeOperands &operands;
  QuantizeKind kind;
  /// An i1: whether the kernel has any work. Null: always.
  Value isNeeded;
};

/// A launch of a kernel along both axes. Only the segments of `columns` may be
/// jagged; `rows` reduces whole rows.
class BothAxesInstance : public KernelInstanceBase<BothAxesInstance> {
public:
  BothAxesInstance(Operation *op, const QuantizeOperands &columns,
                   const QuantizeOperands &rows, TileAttrInterface tile)
      : KernelInstanceBase(op, tile), columns(columns), rows(rows) {}

  const QuantizeOperands &columns, &rows;
};

/// Builds the body of a kernel that supports every address, pitch and size.
using GeneralSchedule = function_ref<void(QuantizeKernel &kernel)>;

/// State and helpers that launches of quantize kernels share.
class QuantizeLaunch {
public:
  QuantizeLaunch(const KernelInstance &instance,
                 const QuantizeOperands &operands, ProgramLowering &lowering)
      : b(instance.op->getLoc(), lowering.getBuilder()),
        problem(operands.problem), sizes(operands.sizes),
        buffers(operands.buffers), lowering(lowering) {}

  /// Launches a kernel of `threads` threads a block over `workTiles`. Builds it
  /// by `schedule` if the cache lacks it.
  void launchGeneral(const QuantizeInstance &instance, StringRef name,
                     int64_t threads, const HostSize &workTiles,
                     GeneralSchedule schedule, Value when);

  Value index(OpFoldResult value) { return HostSize(b, value).getValue(b); }
  HostSize getSegments() { return HostSize(b, sizes.segments); }
  HostSize getColumns() { return HostSize(b, sizes.parallel); }
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

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
