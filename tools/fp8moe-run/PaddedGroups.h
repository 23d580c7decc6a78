//===- PaddedGroups.h - Random inputs with padded groups --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_RUN_PADDEDGROUPS_H
#define FP8MOE_TOOLS_RUN_PADDEDGROUPS_H

#include "HostTensor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fp8moe::run {

/// The inputs of a program that have padded groups (P1 of
/// docs/reference/semantics.md), according to the decisions in the manifest.
class PaddedGroups {
public:
  /// Creates an object without padded inputs; the other constructor reads the
  /// manifest of an artifact that the runtime has accepted.
  PaddedGroups() = default;
  PaddedGroups(const std::string &artifact, llvm::StringRef program);

  /// Returns the padded extent for `tokens` rows, if the dimension has padded
  /// groups. `numGroups` returns the length of the named input of group ends.
  std::optional<int64_t>
  getExtent(llvm::StringRef input, int64_t dim, int64_t tokens,
            llvm::function_ref<int64_t(llvm::StringRef)> numGroups) const;

  /// Returns the largest number of rows, at most `rows`, that fits into all
  /// inputs whose groups end at `ends`.
  int64_t limitRows(const HostTensor &ends, std::optional<int64_t> rows,
                    llvm::ArrayRef<HostTensor> inputs) const;

  /// Zeroes the elements of the input's padding (P2).
  void clearPadding(HostTensor &input, llvm::ArrayRef<HostTensor> inputs) const;

private:
  struct Padded {
    std::string input, ends;
    int64_t dim, pad;
    std::optional<int64_t> rows;

    bool isDimOf(const HostTensor &tensor) const {
      return dim < static_cast<int64_t>(tensor.shape.size());
    }
  };
  std::vector<Padded> padded;
};

} // namespace fp8moe::run

#endif // FP8MOE_TOOLS_RUN_PADDEDGROUPS_H
