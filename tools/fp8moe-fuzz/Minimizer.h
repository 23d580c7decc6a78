//===- Minimizer.h - Making finds small ----------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_MINIMIZER_H
#define FP8MOE_TOOLS_FUZZ_MINIMIZER_H

#include "Death.h"
#include "Worker.h"

namespace fuzz {

/// How `input` dies in a process of its own; nothing when it does not.
std::optional<Death> tryInput(const Plan &plan, const Input &input, Slot &slot);

/// Removes lines, groups of tokens and bytes while the input still dies in the
/// same way, for as long as `seconds` allow.
Input minimize(const Plan &plan, Input input, const std::string &death,
               Slot &slot, int64_t seconds);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_MINIMIZER_H
