//===- Mfma.h - The matrix instruction of a wave ----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_MFMA_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_MFMA_H

#include "Kernels/Emit/KernelBuilder.h"

namespace mlir::fp8moe {

/// The part of a stage of one row (or column) that a lane holds: two chunks of
/// 16 bytes of the contraction, as vector<4xi32>. Which ones does not matter to
/// the sum, as long as both operands agree.
struct MfmaFragment {
  Value chunks[2];
  /// The e8m0 byte (i32) of the row's block that has the number of the lane's
  /// quarter, where there are scales of blocks: v_mfma_scale_f32_16x16x128
  /// takes elements as without, 16 of each half of the stage, and scales by
  /// blocks.
  Value scale;
};

/// Products of `edge` rows and as many columns over a stage of the contraction.
/// The instruction's first operand is the columns' one: so the lane has one row
/// of the result, and neighbouring columns.
///
///   edge 32: four v_mfma_f32_32x32x16 of FP8, or v_mfma_f32_32x32x8 of bf16
///   edge 16: one v_mfma_f32_16x16x128, or two v_mfma_f32_16x16x32 of bf16
class Mfma {
public:
  Mfma(int64_t edge, Type column, Type row)
      : edge(edge), column(column), row(row) {}

  /// f32 results of a lane.
  int64_t getResults() const { return edge * edge / 64; }
  VectorType getAccumulatorType(KernelBuilder &b) const {
    return VectorType::get(getResults(), b.getF32Type());
  }
  /// Instructions of a stage, which follow each other in `part`: what depends
  /// on each other should not be neighbours.
  int64_t getParts() const;
  Value create(KernelBuilder &b, const MfmaFragment &columns,
               const MfmaFragment &rows, Value accumulator, int64_t part) const;

private:
  Value getPart(KernelBuilder &b, const MfmaFragment &fragment,
                int64_t part) const;

  int64_t edge;
  Type column, row;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_MFMA_H
