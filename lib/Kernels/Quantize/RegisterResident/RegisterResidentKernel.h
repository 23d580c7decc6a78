//===- RegisterResidentKernel.h - Slices held in registers ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTKERNEL_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTKERNEL_H

#include "Kernels/Quantize/QuantizeKernel.h"

namespace mlir::fp8moe {

void buildRegisterResident(QuantizeKernel &kernel,
                           RegisterResidentTileAttr tile);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_REGISTERRESIDENT_REGISTERRESIDENTKERNEL_H
