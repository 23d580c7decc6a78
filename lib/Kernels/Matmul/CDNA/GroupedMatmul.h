//===- GroupedMatmul.h - The grouped matmul on CDNA -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_GROUPEDMATMUL_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_GROUPEDMATMUL_H

#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Matmul/CDNA/CDNATiles.h"
#include "Kernels/Matmul/GroupedMatmul.h"

namespace mlir::fp8moe {

/// Strides in elements that no tensor map holds: of the rows of a and the
/// columns of b, or of the contraction where an operand is MN-major; of b's
/// groups (M-grouped) and of the result's rows and groups (K-grouped).
template <typename T> struct CDNAMatmulStrides {
  T pitchA, pitchB, bGroup, resultRow, resultGroup;

  static constexpr auto members() {
    using S = CDNAMatmulStrides;
    return std::array{&S::pitchA, &S::pitchB, &S::bGroup, &S::resultRow,
                      &S::resultGroup};
  }
};

/// Bytes of a pitch: a tile's rows must lie in what a buffer descriptor spans.
constexpr int64_t kMaxPitchBytes = (int64_t(1) << 23) - 256;

/// The kernel of a problem. Its parameters: the pointers offsets, both scales
/// if there are any, a, b, result and what is accumulated into, if anything;
/// then the dynamic sizes of the problem, then the dynamic strides, then the
/// number of blocks. Blocks are dies x row blocks of a die x column tiles.
void buildCDNAGroupedMatmul(Location loc, gpu::GPUModuleOp module,
                            StringRef name, const GroupedMatmulProblem &problem,
                            const CDNAMatmulStrides<int64_t> &strides,
                            const CDNAMatmulConfig &config,
                            const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_GROUPEDMATMUL_H
