//===- RandomInputs.h - Reproducible random tensors -------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_RANDOMINPUTS_H
#define FP8MOE_TOOLS_RUN_RANDOMINPUTS_H

#include "HostTensor.h"

#include <random>

namespace fp8moe::run {

/// Fills a tensor for `fp8moe-run --random`. The same seed gives the same bytes
/// on every machine: only integer arithmetic and exact float operations are
/// used. Floats are bell-shaped around zero with some larger by orders of
/// magnitude, as gradients are; FP8 and E8M0 are codes that are not NaN; a
/// 32-bit integer is the end of a group of `rows` rows: ends do not decrease, a
/// quarter of the groups is empty, and rows may be left after the last one.
/// Returns false for an element type that has no such convention.
bool fillRandom(HostTensor &tensor, int64_t rows, std::mt19937_64 &engine);

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_RANDOMINPUTS_H
