//===- Generator.h - Inputs by number ------------------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_GENERATOR_H
#define FP8MOE_TOOLS_FUZZ_GENERATOR_H

#include "Corpus.h"
#include "Input.h"
#include "Random.h"

namespace fuzz {

/// So many inputs, from a multiple of this number on, are either all bytecode
/// or none is. Upstream's reader of bytecode may leave a process damaged, so
/// that other inputs must be read by other processes.
inline constexpr uint64_t kInputsPerRun = 1000;

/// Makes input number `index` of `seed`: always the same for the same corpus.
Input makeInput(const Corpus &corpus, llvm::ArrayRef<Kind> kinds, uint64_t seed,
                uint64_t index);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_GENERATOR_H
