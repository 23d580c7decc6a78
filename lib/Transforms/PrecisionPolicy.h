//===- PrecisionPolicy.h - Rules that need no prediction --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PRECISIONPOLICY_H
#define FP8MOE_LIB_TRANSFORMS_PRECISIONPOLICY_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"

#include <optional>
#include <string>

namespace mlir::fp8moe {

/// The weights [N, K] of a module, of one expert where there are several: the
/// same whichever use of them a matmul is. kDynamic for what is not known.
struct WeightShape {
  int64_t n, k;

  static WeightShape get(MatmulOpInterface op);
};

/// Why FP8 hardware does not take weights of this shape, or nothing.
std::optional<std::string> explainUnaligned(const WeightShape &weights);

/// Why torchao's filter (`auto_filter_small_kn` of its Float8LinearConfig, as
/// of August 2026) leaves a module in bf16, or nothing where it converts it.
/// The sizes are known, and the recipe is one that it has a rule for.
std::optional<std::string> explainTorchao(const WeightShape &weights,
                                          PrecisionRecipe recipe);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PRECISIONPOLICY_H
