//===- GroupedMatmul.h - The grouped matmul on Hopper -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPEDMATMUL_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPEDMATMUL_H

#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Matmul/GroupedMatmul.h"
#include "Kernels/Matmul/Hopper/HopperTiles.h"

namespace mlir::fp8moe {

/// Elements of the contraction that the tensor cores add up by themselves.
/// Their sums of FP8 products keep fewer bits than f32, so that the relative
/// error grows with the root of the length: 2.9e-5 per root of an element were
/// measured with normally distributed operands up to 131072 elements, beside
/// the 1.7e-3 of a bf16 result. So many elements make 6.6e-3 of the 8e-3 that
/// (G5) grants; what is longer is added up in f32 from parts.
constexpr int64_t kFastSumElements = 49152;

/// Whether a contraction may be too long for one sum of the tensor cores.
bool hasPartialSums(const GroupedMatmulProblem &problem);

/// Whether the problem's consumers are told their tiles, and its kernel's
/// shared memory.
bool sendsTileMessages(const GroupedMatmulProblem &problem,
                       const HopperMatmulConfig &config);
HopperMatmulMemory getMatmulMemory(const GroupedMatmulProblem &problem,
                                   const HopperMatmulConfig &config);

/// Whether f32 sums are added to the result in memory as they are stored, by a
/// TMA reduction in the L2 cache, so that no thread loads the addend; the
/// result then has to begin as the addend (AddendCopy.h). bf16 sums are rounded
/// once, after the addition in f32, so their addend is loaded.
inline bool addsInMemory(const GroupedMatmulProblem &problem) {
  return problem.accumulates && problem.resultType.isF32();
}
inline bool loadsAddend(const GroupedMatmulProblem &problem) {
  return problem.accumulates && !addsInMemory(problem);
}

/// Columns and bytes per row of the boxes that results are stored in. A box has
/// the rows that one warp holds of a matrix instruction's result.
struct ResultBox {
  int64_t columns, rowBytes;
  static constexpr int64_t kRows = 16;

  /// The widest box that divides the columns of a tile.
  static ResultBox get(int64_t tileColumns, int64_t resultBytes);
};

/// Bytes in memory that a block needs for partial sums.
int64_t getPartialSumsBytes(const HopperMatmulConfig &config);

/// The kernel of a problem. Its parameters: tensor maps of a (contraction,
/// rows), of b (contraction and columns, or columns and contraction, and, with
/// experts, groups) and of the result (columns, rows and, in the weight
/// gradient, groups); then the pointers offsets (unless dense), both scales if
/// there are any, result (M-grouped), what is accumulated into, if it is
/// loaded, and room for partial sums, if there may be any (getPartialSumsBytes
/// for each block); then the dynamic sizes.
void buildHopperGroupedMatmul(Location loc, gpu::GPUModuleOp module,
                              StringRef name,
                              const GroupedMatmulProblem &problem,
                              const HopperMatmulConfig &config,
                              const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_GROUPEDMATMUL_H
