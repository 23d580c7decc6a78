//===- Cards.h - Products that have a chip ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A chip is what is compiled for; several products have it, with other numbers
// of multiprocessors, caches and memory. Code is the same for all of them, and
// the host plan reads from the device what distinguishes them. Predictions are
// those of the product in the table of chips, unless a card is named.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_CARDS_H
#define FP8MOE_TARGET_CARDS_H

#include "fp8moe/Target/TargetInfo.h"

namespace mlir::fp8moe {

struct CardInfo {
  /// As users write it: "h100".
  llvm::StringRef name;
  /// The chip's entry, with the figures of this product.
  TargetInfo info;
};

/// All known cards; each chip's own product is one of them.
llvm::ArrayRef<CardInfo> knownCards();

/// The entry for `name`, or null when it is unknown. Names match exactly.
const CardInfo *lookupCard(llvm::StringRef name);

/// "unknown card 'NAME'", with the card that it may mean and all known ones.
std::string describeUnknownCard(llvm::StringRef name);

/// "unknown target 'CHIP'", with the chip that it may mean, which can be that
/// of a card or product, and all known ones.
std::string describeUnknownTarget(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_CARDS_H
