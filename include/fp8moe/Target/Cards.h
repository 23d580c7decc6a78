//===- Cards.h - Products that have a chip ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A card is a product with a chip. Cards with the same chip differ in
// multiprocessors, caches and memory. They run the same code, as the host plan
// reads these figures from the device. Predictions are for the card in the
// table of chips, unless another one is named.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_CARDS_H
#define FP8MOE_TARGET_CARDS_H

#include "fp8moe/Target/TargetInfo.h"

namespace mlir::fp8moe {

struct CardInfo {
  /// The name on the command line: "h100".
  llvm::StringRef name;
  /// The chip's entry, with the figures of this product.
  TargetInfo info;
};

/// Returns all known cards, among them the card of each chip's entry.
llvm::ArrayRef<CardInfo> knownCards();

/// Returns the entry for `name`, or null if it is unknown. Names match exactly.
const CardInfo *lookupCard(llvm::StringRef name);

/// Returns "unknown card 'NAME'", with a suggestion and all known cards.
std::string describeUnknownCard(llvm::StringRef name);

/// Returns "unknown target 'CHIP'", with a suggestion and all known targets.
/// For the name of a card or product the suggestion is its chip.
std::string describeUnknownTarget(llvm::StringRef chip);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_CARDS_H
