//===- ResidentStrips.h - Strips held in registers --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPS_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPS_H

#include "Kernels/Quantize/QuantizeKernel.h"

namespace mlir::fp8moe {

/// Blocks post magnitudes to `slots`, whose words are zero when the kernel
/// begins; null where no strip has more than one piece.
void buildResidentStrips(QuantizeKernel &kernel, ResidentStripsTileAttr tile,
                         Value slots);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_RESIDENTSTRIPS_RESIDENTSTRIPS_H
