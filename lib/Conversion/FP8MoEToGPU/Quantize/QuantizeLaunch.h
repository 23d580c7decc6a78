//===- QuantizeLaunch.h - Launches of kernels with conditions ---*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZELAUNCH_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZELAUNCH_H

#include "FP8MoEToGPU/Program/ProgramLowering.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/SegmentedQuantize.h"

namespace mlir::fp8moe {

/// The buffers of a quantization; `offsets` only when it is jagged.
struct QuantizeBuffers {
  Value input, offsets, output, scales;
};

/// What launches of quantize kernels that do not take every address, pitch and
/// size have in common.
class QuantizeLaunch {
public:
  QuantizeLaunch(Location loc, const QuantizeProblem &problem,
                 const QuantizeSizes<OpFoldResult> &sizes,
                 const QuantizeBuffers &buffers, ProgramLowering &lowering)
      : b(loc, lowering.getBuilder()), builder(lowering.getBuilder()),
        size(builder, loc), problem(problem), sizes(sizes), buffers(buffers),
        lowering(lowering) {}

protected:
  Value index(OpFoldResult value) {
    return materializeSize(builder, b.getLoc(), value);
  }
  Value index(int64_t value) { return index(builder.getIndexAttr(value)); }
  int64_t getInputBytes() const {
    return problem.inputType.getIntOrFloatBitWidth() / 8;
  }

  // Conditions, i1.
  Value both(Value lhs, Value rhs) {
    return b.createOrFold<arith::AndIOp>(lhs, rhs);
  }
  Value negate(Value condition) {
    Value yes = arith::ConstantIntOp::create(b, builder.getI1Type(), 1);
    return b.createOrFold<arith::XOrIOp>(condition, yes);
  }
  Value compare(arith::CmpIPredicate predicate, OpFoldResult lhs, int64_t rhs) {
    return b.createOrFold<arith::CmpIOp>(predicate, index(lhs), index(rhs));
  }

  /// Appends all sizes to `numbers`, which tell kernels apart. Returns those
  /// that are arguments of the kernel, as only the run time knows them.
  SmallVector<OpFoldResult> addSizes(SmallVectorImpl<int64_t> &numbers) {
    SmallVector<OpFoldResult> arguments;
    for (auto member : QuantizeSizes<OpFoldResult>::members()) {
      numbers.push_back(getStaticSize(sizes.*member));
      if (ShapedType::isDynamic(numbers.back()))
        arguments.push_back(sizes.*member);
    }
    return arguments;
  }

  ImplicitLocOpBuilder b;
  OpBuilder builder;
  SizeBuilder size;
  const QuantizeProblem &problem;
  const QuantizeSizes<OpFoldResult> &sizes;
  const QuantizeBuffers &buffers;
  ProgramLowering &lowering;
};

/// Rows, columns, segments and tiles are counted in i32, with room for sums.
inline constexpr int64_t kMaxCount = int64_t(1) << 30;

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZELAUNCH_H
