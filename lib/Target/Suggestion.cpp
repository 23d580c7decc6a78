//===- Suggestion.cpp - Names for those that nobody knows -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/Suggestion.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir::fp8moe;

static std::string normalize(llvm::StringRef name) {
  std::string letters;
  for (char c : name)
    if (llvm::isAlnum(c))
      letters += llvm::toLower(c);
  return letters;
}

size_t mlir::fp8moe::findNearest(llvm::StringRef found,
                                 llvm::ArrayRef<std::string> known) {
  std::string wanted = normalize(found);
  // A third of the letters may be wrong.
  size_t limit = (wanted.size() + 1) / 3 + 1;
  size_t nearest = known.size();
  for (size_t i = 0; i < known.size() && limit > 0; ++i) {
    size_t distance = llvm::StringRef(wanted).edit_distance(
        normalize(known[i]), /*AllowReplacements=*/true, limit);
    if (distance >= limit)
      continue;
    limit = distance;
    nearest = i;
  }
  return nearest;
}

std::string mlir::fp8moe::suggest(llvm::StringRef found,
                                  llvm::ArrayRef<std::string> known) {
  size_t nearest = findNearest(found, known);
  return nearest < known.size() ? " (did you mean '" + known[nearest] + "'?)"
                                : std::string();
}

std::string mlir::fp8moe::describeUnknown(llvm::StringRef kind,
                                          llvm::StringRef found,
                                          llvm::ArrayRef<std::string> known) {
  return ("unknown " + kind + " '" + found + "'" + suggest(found, known) +
          "; expects one of " + llvm::join(known, ", "))
      .str();
}
