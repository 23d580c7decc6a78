//===- InnerAxis.h - What is done with rows beside columns ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_INNERAXIS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_INNERAXIS_H

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Kernel.h"

namespace mlir::fp8moe::single_pass_outer {

/// What warps of rows have in common. The rows of a block are numbered: its
/// items.
class InnerAxisBuilder {
protected:
  explicit InnerAxisBuilder(SinglePassOuterKernel &kernel)
      : k(kernel), b(kernel.b),
        items(b.ceilDiv(b.maxS(b.sub(kernel.rows, kernel.block), 0),
                        kernel.numBlocks)) {}

  /// Bytes that the lanes of a warp read at once.
  int64_t getWarpBytes() const { return kChunkBytes * b.getSubgroupSize(); }
  Value getRow(Value item) { return b.add(k.block, b.mul(item, k.numBlocks)); }
  Value getStage(Value item) { return b.remU(item, k.tile.rowStages); }

  // By one thread: loads the first rows to their stages, every `step`th from
  // `first` on, and says that no more come.
  void loadFirstRows(Value first, int64_t step);
  void announceEnd();
  /// Loads a row to its stage, in one thread, if there is such a row.
  void loadRowIfAny(Value isLoader, Value item);

  /// Waits for a row, and returns where it is in shared memory.
  Value waitForRow(Value item);
  /// The f32 bits of the largest magnitude that the warp has, from those of the
  /// lane's chunks.
  Value getMagnitude(Value largest);
  void storeScale(Value item, Value scale);
  /// Where the quantized row begins.
  Value getOutput(Value item);
  /// Quantizes the chunk at byte `byte` of the input's row.
  void storeQuantized(Value output, Value byte, Value chunk, Value scale);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
  Value items;

private:
  void loadRow(Value item);
  Value convert(Value chunk, Value scale);
};

/// Rows that are divided (DividedRows.cpp).
void buildDividedRows(SinglePassOuterKernel &kernel, Value warp);

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_INNERAXIS_H
