//===- JsonMutator.h - Changes to JSON ------------------------ -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_JSONMUTATOR_H
#define FP8MOE_TOOLS_FUZZ_JSONMUTATOR_H

#include "Random.h"

#include <string>

namespace fuzz {

/// Makes one to a handful of changes to the tree: values at boundaries and of
/// other types, parts exchanged, repeated, removed and nested. Text that is no
/// JSON is changed in its bytes.
std::string mutateJson(const std::string &text, Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_JSONMUTATOR_H
