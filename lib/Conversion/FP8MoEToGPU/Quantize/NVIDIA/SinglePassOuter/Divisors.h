//===- Divisors.h - What is beside a quantization with divisors -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The single-pass kernel multiplies instead of dividing (Q11). A kernel before
// it computes the factors, once for all tiles that need them, and finds the
// group of each row.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_DIVISORS_H
#define FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_DIVISORS_H

#include "fp8moe/Conversion/FP8MoEToGPU/Common/KernelBuilder.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Quantize/AxisQuantizeProblem.h"

namespace mlir::fp8moe::single_pass_outer {

/// Words before and behind the factors of rows: a tile reads those of all of
/// its rows, and of the 16 above it, whatever it uses. It begins less than a
/// sector before the first row, and has up to 256 of them.
constexpr int64_t kFactorsBefore = 64;
constexpr int64_t kFactorsBehind = 256;

/// Threads of a block of both kernels.
constexpr int64_t kDivisorThreads = 256;

/// Builds kernel `name`, which computes the factors of rows: a word each, an
/// f32 or the same bf16 twice. With `hasGroups` also those of groups, elements
/// of the input's type, with a group of ones behind the last; and the group of
/// each row, which is that one for rows of no group. Arguments: divisors of
/// rows, their factors, and for groups divisors, factors, offsets, and the
/// groups of rows; the number of rows, and for groups that of groups and of
/// columns; the number of blocks.
void buildDivisorFactors(Location loc, gpu::GPUModuleOp module, StringRef name,
                         Type inputType, bool hasGroups,
                         const TargetHooks &hooks);

/// Builds kernel `name`, which does what is left of `problem` where there are
/// no rows: scales of empty groups, and zeros where groups are padded.
/// Arguments: output and scales; the sizes `parallel`, `extent`, `outParallel`,
/// `segments`, `scaleSegment` and `scaleParallel`; the number of blocks.
void buildEmptyQuantize(Location loc, gpu::GPUModuleOp module, StringRef name,
                        const AxisQuantizeProblem &problem,
                        const TargetHooks &hooks);

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_CONVERSION_FP8MOETOGPU_QUANTIZE_NVIDIA_SINGLEPASSOUTER_DIVISORS_H
