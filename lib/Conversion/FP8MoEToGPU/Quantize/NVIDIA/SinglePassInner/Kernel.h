//===- Kernel.h - Quantize whole columns from one read ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Jagged groups with rows contiguous on both sides: a block takes whole
// columns, which have rows of all groups, and each column is one bulk copy.
//
//   column ──bulk copy──► ring of bulk tiles ───────────► convert ──► output
//              │                 │                          ▲
//         1 producer           reduce ──► magnitudes ──► scale
//            warp              warps       by group     1 warp
//
// A bulk tile stays in shared memory until all bulk tiles of its column were
// measured. Every column has the same groups, so where they are is worked out
// once. A warp reads a bulk tile in lines of 32 chunks; a line that groups
// share goes the slow way. The blocks of a cluster share a column that is too
// long for one: each sends what it measured to all.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_KERNEL_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_KERNEL_H

#include "FP8MoEToGPU/Quantize/QuantizeMath.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/AxisQuantizeProblem.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassInnerTiles.h"

namespace mlir::fp8moe {

/// The kernel of a problem whose rows are contiguous and whose columns are
/// aligned to chunks on both sides. A block's part of a column must fit
/// SharedMemory::getMaxColumn. Its parameters are input, offsets, output and
/// scales, then the dynamic sizes in the order of `members`.
gpu::GPUFuncOp buildSinglePassInnerQuantize(
    Location loc, gpu::GPUModuleOp module, StringRef name,
    const AxisQuantizeProblem &problem, const SinglePassInnerTile &tile,
    const single_pass_inner::SharedMemory &memory, const TargetHooks &hooks);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSINNER_KERNEL_H
