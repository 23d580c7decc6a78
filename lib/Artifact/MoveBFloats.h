//===- MoveBFloats.h - bf16 values that are only moved ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_ARTIFACT_MOVEBFLOATS_H
#define FP8MOE_LIB_ARTIFACT_MOVEBFLOATS_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fp8moe {

/// Loads, merges, chooses and stores values of bf16 as integers, so that code
/// generation keeps every bit of what is not computed with.
void moveBFloatsAsIntegers(llvm::Module &llvmModule);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_ARTIFACT_MOVEBFLOATS_H
