//===- FP8MoEToLoops.h - The CPU path ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_CONVERSION_FP8MOETOLOOPS_FP8MOETOLOOPS_H
#define FP8MOE_CONVERSION_FP8MOETOLOOPS_FP8MOETOLOOPS_H

namespace mlir {
class OpPassManager;

namespace fp8moe {

/// Lowers the output of convert-fp8moe-to-loops and fp8moe-define-cpu-entries
/// to the LLVM dialect. Buffers are freed, and FP8 casts become integer
/// arithmetic. The result calls no library functions but malloc, free and mem*.
/// Host plans stay as they are.
void buildLoopsToLLVMPipeline(OpPassManager &pm);

} // namespace fp8moe
} // namespace mlir

#endif // FP8MOE_CONVERSION_FP8MOETOLOOPS_FP8MOETOLOOPS_H
