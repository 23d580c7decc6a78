//===- KernelChoice.h - The tiles that operations name ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELCHOICE_H
#define FP8MOE_KERNELS_MODEL_KERNELCHOICE_H

#include "fp8moe/Kernels/Model/KernelFamily.h"

namespace mlir::fp8moe {

/// Reports at `op` an illegal part of a choice of tiles for `work`. Such are
/// illegal tiles, unreachable alternatives, and cases without a kernel although
/// some family supports all cases.
LogicalResult verifyChoice(Operation *op, KernelChoiceAttr choice,
                           const KernelWork &work, const TargetInfo &target);

/// Whether a choice has a general kernel for every mean length of slices.
bool takesEverything(KernelChoiceAttr choice);

/// Appends the alternatives of `fallback` to those of `choice`.
KernelChoiceAttr appendAlternatives(KernelChoiceAttr choice,
                                    KernelChoiceAttr fallback);

/// Returns the tile of a choice with one tile for all sizes, or null.
TileAttrInterface getOnlyTile(KernelChoiceAttr choice);

/// Returns the tiles of `op`, for which the target has kernels. Reports missing
/// or illegal tiles.
FailureOr<KernelChoiceAttr> requireChoice(TiledOpInterface op,
                                          const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELCHOICE_H
