//===- Random.h - Numbers that follow from a seed ------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_RANDOM_H
#define FP8MOE_TOOLS_FUZZ_RANDOM_H

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace fuzz {

/// SplitMix64. The standard library's distributions differ between libraries,
/// and a seed must mean the same input everywhere.
class Random {
public:
  Random(uint64_t seed, uint64_t index) : state(seed) {
    state = next() ^ (index * 0xd1342543de82ef95ull);
  }

  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  /// From 0 to `bound` - 1.
  size_t below(size_t bound) {
    assert(bound > 0);
    return next() % bound;
  }

  /// True once in `n` times.
  bool oneIn(size_t n) { return below(n) == 0; }

  template <typename Container> auto &pick(Container &&container) {
    return container[below(std::size(container))];
  }

private:
  uint64_t state;
};

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_RANDOM_H
