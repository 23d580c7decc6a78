//===- Mutators.h - Changes to inputs that keep their structure -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZERS_MUTATORS_H
#define FP8MOE_TOOLS_FUZZERS_MUTATORS_H

#include "llvm/ADT/StringRef.h"

#include <random>
#include <string>

namespace fuzz {

/// Numbers that follow from a seed. The distributions of standard libraries
/// differ, and a seed must mean the same input everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// From 0 to `bound` - 1.
  size_t below(size_t bound) { return engine() % bound; }

  /// True once in `n` times.
  bool oneIn(size_t n) { return below(n) == 0; }

  template <typename Container> auto &pick(Container &&container) {
    return container[below(std::size(container))];
  }

private:
  std::mt19937_64 engine;
};

/// Makes one to a handful of changes to IR or a pipeline, such that the
/// verifier still accepts many: equal sizes, types and attributes often change
/// together.
std::string mutateText(llvm::StringRef text, Random &random);

/// Puts a piece of `other` where `text` has one of the same kind, or behind an
/// equal token: another rounding behind `rounding`, an operation behind `=`.
std::string crossOverText(llvm::StringRef text, llvm::StringRef other,
                          Random &random);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZERS_MUTATORS_H
