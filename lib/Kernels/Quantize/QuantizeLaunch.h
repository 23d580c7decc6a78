//===- QuantizeLaunch.h - Launches of quantize kernels ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H

#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Program/Conditions.h"
#include "Kernels/Program/ProgramLowering.h"
#include "Kernels/Quantize/QuantizeInstance.h"
#include "Kernels/Quantize/SizeDemand.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeMath.h"

namespace mlir::fp8moe {

/// The common part of launches of quantize kernels.
class QuantizeLaunch {
public:
  QuantizeLaunch(const KernelInstance &instance,
                 const QuantizeOperands &operands, ProgramLowering &lowering)
      : b(instance.op->getLoc(), lowering.getBuilder()),
        problem(operands.problem), sizes(operands.sizes),
        buffers(operands.buffers), lowering(lowering) {}

  /// Appends all sizes to `numbers`, which tell kernels apart. Returns those
  /// that are arguments of the kernel, as only the run time knows them.
  SmallVector<OpFoldResult> addSizes(SmallVectorImpl<int64_t> &numbers) {
    return addSizes(sizes, numbers);
  }
  static SmallVector<OpFoldResult>
  addSizes(const QuantizeSizes<OpFoldResult> &sizes,
           SmallVectorImpl<int64_t> &numbers) {
    SmallVector<OpFoldResult> arguments;
    for (auto member : QuantizeSizes<OpFoldResult>::members()) {
      numbers.push_back(getStaticSize(sizes.*member));
      if (ShapedType::isDynamic(numbers.back()))
        arguments.push_back(sizes.*member);
    }
    return arguments;
  }

  Value index(OpFoldResult value) { return HostSize(b, value).getValue(b); }
  int64_t getInputBytes() const {
    return problem.inputType.getIntOrFloatBitWidth() / 8;
  }

  /// The blocks that the card holds, with so many for each multiprocessor.
  HostSize countResident(int64_t blocks) {
    Value multiprocessors =
        plan::DeviceAttrOp::create(b, b.getIndexType(),
                                   plan::DeviceAttribute::Multiprocessors)
            .getResult();
    return HostSize(b, multiprocessors) * HostSize(blocks);
  }

  // Conditions, i1.
  Value both(Value lhs, Value rhs) {
    return createBoth(b, b.getLoc(), lhs, rhs);
  }
  Value holds(const SizeDemand<OpFoldResult> &demand) {
    using Demand = SizeDemand<OpFoldResult>;
    HostSize size(b, demand.size), number(demand.number);
    switch (demand.kind) {
    case Demand::MultipleOf:
      return compare(Relation::Equal, size % number, HostSize(0)).getValue();
    case Demand::MoreThan:
      return compare(Relation::More, size, number).getValue();
    case Demand::LessThan:
      return compare(Relation::Less, size, number).getValue();
    }
    llvm_unreachable("unknown kind of demand");
  }

  /// Whether columns of the result lie whole chunks apart.
  Value areColumnsAligned() {
    using Demand = SizeDemand<OpFoldResult>;
    Value condition =
        holds({sizes.outParallel, Demand::MultipleOf, kVectorBytes});
    if (problem.jagged)
      return condition;
    return both(condition,
                holds({sizes.outSegment, Demand::MultipleOf, kVectorBytes}));
  }

  ImplicitLocOpBuilder b;
  const AxisQuantizeProblem &problem;
  const QuantizeSizes<OpFoldResult> &sizes;
  const QuantizeBuffers &buffers;
  ProgramLowering &lowering;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZELAUNCH_H
