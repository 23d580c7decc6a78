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
/// docs/reference/semantics.md), as the decisions of the manifest say.
class PaddedGroups {
public:
  /// Reads the manifest of an artifact, which the runtime has accepted.
  PaddedGroups() = default;
  PaddedGroups(const std::string &artifact, llvm::StringRef program);

  /// The padded extent that holds `tokens` rows, if it is one; `numGroups`
  /// gives the length of the input with the ends.
  std::optional<int64_t>
  getExtent(llvm::StringRef input, int64_t dim, int64_t tokens,
            llvm::function_ref<int64_t(llvm::StringRef)> numGroups) const;

  /// At most `rows`, but no more than fit into all inputs whose groups end at
  /// `ends`; without `rows` as many as fit.
  int64_t limitRows(const HostTensor &ends, std::optional<int64_t> rows,
                    llvm::ArrayRef<HostTensor> inputs) const;

  /// Zeroes what belongs to no row (P2).
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
