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

/// Reports at `op` what in a choice for its `work` is not legal: a tile, an
/// alternative that is never reached, or work that is left to no kernel, where
/// some family takes everything.
LogicalResult verifyChoice(Operation *op, KernelChoiceAttr choice,
                           const KernelWork &work, const TargetInfo &target);

/// Reports at `op`, whose kernels have one tile for all sizes, that the choice
/// that it names has others besides.
LogicalResult verifyOneTile(Operation *op, KernelChoiceAttr choice);

/// Whether alternatives that take everything cover every value of their
/// quantity.
bool takesEverything(KernelChoiceAttr choice);

/// `choice` with the alternatives of `fallback` behind its own.
KernelChoiceAttr appendAlternatives(KernelChoiceAttr choice,
                                    KernelChoiceAttr fallback);

/// The tile of a choice that has one for all sizes, or null.
TileAttrInterface getOnlyTile(KernelChoiceAttr choice);

/// The choice that `op`, for which the target has kernels, names; reports that
/// there is none, or why it is not legal.
FailureOr<KernelChoiceAttr> requireChoice(TiledOpInterface op,
                                          const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELCHOICE_H
