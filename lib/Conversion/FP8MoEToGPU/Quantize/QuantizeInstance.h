//===- QuantizeInstance.h - Quantizations and their tensors -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZEINSTANCE_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZEINSTANCE_H

#include "FP8MoEToGPU/Program/KernelLowering.h"

#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/SegmentedQuantize.h"

namespace mlir::fp8moe {

/// The buffers of a quantization; `offsets` only when it is jagged.
struct QuantizeBuffers {
  Value input, offsets, output, scales;
};

/// A quantization along one axis.
struct QuantizeOperands {
  QuantizeProblem problem;
  QuantizeSizes<OpFoldResult> sizes;
  QuantizeBuffers buffers;
};

/// What the kernels along one axis take.
class QuantizeInstance : public KernelInstanceBase<QuantizeInstance> {
public:
  QuantizeInstance(Operation *op, const QuantizeOperands &operands,
                   const QuantizeConfig &tile)
      : KernelInstanceBase(op), operands(operands), tile(tile) {}

  const QuantizeOperands &operands;
  QuantizeConfig tile;
};

/// What a kernel along both axes takes: `columns` are jagged, `rows` whole.
class BothAxesInstance : public KernelInstanceBase<BothAxesInstance> {
public:
  BothAxesInstance(Operation *op, const QuantizeOperands &columns,
                   const QuantizeOperands &rows, const QuantizeConfig &tile)
      : KernelInstanceBase(op), columns(columns), rows(rows), tile(tile) {}

  const QuantizeOperands &columns, &rows;
  QuantizeConfig tile;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_QUANTIZEINSTANCE_H
