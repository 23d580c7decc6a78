//===- QuantizeInstance.h - Quantizations and their tensors -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEINSTANCE_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEINSTANCE_H

#include "Kernels/Program/LoweringTable.h"

#include "Kernels/Quantize/QuantizeSizes.h"

namespace mlir::fp8moe {

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

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEINSTANCE_H
