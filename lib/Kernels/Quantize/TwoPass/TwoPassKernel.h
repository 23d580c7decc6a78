//===- TwoPassKernel.h - Slices that are read twice -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSKERNEL_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSKERNEL_H

#include "Kernels/Quantize/QuantizeKernel.h"

namespace mlir::fp8moe {

void buildTwoPassInner(QuantizeKernel &kernel, TwoPassTileAttr tile);
void buildTwoPassOuter(QuantizeKernel &kernel, TwoPassTileAttr tile,
                       QuantizeKind kind);
/// The one of them for the kind.
void buildTwoPass(QuantizeKernel &kernel, TwoPassTileAttr tile,
                  QuantizeKind kind);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_TWOPASS_TWOPASSKERNEL_H
