//===- FusedRows.h - Rows that their readers compute ------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FUSEDROWS_H
#define FP8MOE_DIALECT_FP8MOE_IR_FUSEDROWS_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

namespace mlir::fp8moe {

/// Whether the kernels of a tile compute their input.
bool computesInput(TileAttrInterface tile);

/// Whether the kernels of all operations that read the result compute it, as
/// their tiles say, for some sizes or for all. Each reader then launches the
/// kernel of `op` itself before its kernels that do not (`LowerQuantize.cpp`).
/// Nothing writes the operands of `op` meanwhile: an output may only overwrite
/// an input of which a matmul's addend is the only use.
bool isComputedByReaders(RowOpInterface op);

} // namespace mlir::fp8moe

#endif // FP8MOE_DIALECT_FP8MOE_IR_FUSEDROWS_H
