//===- Cards.cpp - Products that have a chip ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/Cards.h"

#include "ChipTables.h"
#include "fp8moe/Target/Suggestion.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <iterator>
#include <vector>

using namespace mlir::fp8moe;

namespace {
constexpr int64_t mebi = int64_t(1) << 20;

/// The figures in which a product differs from the one in the table of chips.
struct Figures {
  llvm::StringLiteral name, chip, description;
  int64_t multiprocessors, l2Bytes;
  double peakMemoryBandwidth, clockMHz;
  const Calibration &calibration;
};

/// Data sheets of NVIDIA's products (2026-11), and for the H100 and H200 SXM
/// the attributes of devices. Peaks of matrix instructions and copies are with
/// the calibrations.
const Figures figures[] = {
    {"h200", "sm_90a", "NVIDIA H200 (Hopper)", 132, 60 * mebi, h200Bandwidth,
     1980, h200Calibration},
    {"h100", "sm_90a", "NVIDIA H100 SXM (Hopper)", 132, 50 * mebi,
     h100Bandwidth, 1980, h100Calibration},
    {"h100-pcie", "sm_90a", "NVIDIA H100 PCIe (Hopper)", 114, 50 * mebi,
     h100PcieBandwidth, 1755, h100PcieCalibration},
    {"gh200", "sm_90a", "NVIDIA GH200 with HBM3 (Hopper)", 132, 60 * mebi,
     gh200Bandwidth, 1980, gh200Calibration},
    {"h20", "sm_90a", "NVIDIA H20 (Hopper)", 78, 60 * mebi, h20Bandwidth, 1980,
     h20Calibration},
};
} // namespace

static CardInfo getCard(const Figures &figures) {
  TargetInfo info = *lookupTarget(figures.chip);
  info.description = figures.description;
  info.multiprocessors = figures.multiprocessors;
  info.l2.bytes = figures.l2Bytes;
  info.peakMemoryBandwidth = figures.peakMemoryBandwidth;
  info.clockMHz = figures.clockMHz;
  info.calibration = &figures.calibration;
  return {figures.name, info};
}

llvm::ArrayRef<CardInfo> mlir::fp8moe::knownCards() {
  static const std::vector<CardInfo> cards(
      llvm::map_iterator(std::begin(figures), getCard),
      llvm::map_iterator(std::end(figures), getCard));
  return cards;
}

const CardInfo *mlir::fp8moe::lookupCard(llvm::StringRef name) {
  const CardInfo *it = llvm::find_if(
      knownCards(), [&](const CardInfo &card) { return card.name == name; });
  return it == knownCards().end() ? nullptr : it;
}

/// Whether one name may misspell the other: with other digits it is another
/// product.
static bool haveSameDigits(llvm::StringRef a, llvm::StringRef b) {
  return llvm::equal(llvm::make_filter_range(a, llvm::isDigit),
                     llvm::make_filter_range(b, llvm::isDigit));
}

std::string mlir::fp8moe::describeUnknownCard(llvm::StringRef name) {
  std::vector<llvm::StringRef> known;
  std::vector<std::string> similar;
  for (const CardInfo &card : knownCards()) {
    known.push_back(card.name);
    if (haveSameDigits(name, card.name))
      similar.push_back(card.name.str());
  }
  return ("unknown card '" + name + "'" + suggest(name, similar) +
          "; known cards: " + llvm::join(known, ", "))
      .str();
}

std::string mlir::fp8moe::describeUnknownTarget(llvm::StringRef chip) {
  std::vector<std::string> spellings;
  std::vector<llvm::StringRef> chips;
  auto add = [&](llvm::StringRef spelling, llvm::StringRef meaning) {
    if (!haveSameDigits(chip, spelling))
      return;
    spellings.push_back(spelling.str());
    chips.push_back(meaning);
  };
  for (const TargetInfo &target : knownTargets()) {
    add(target.chip, target.chip);
    // "NVIDIA B200 (Blackwell)": the product's name has digits.
    for (llvm::StringRef word : llvm::split(target.description, ' '))
      if (target.isGPU() && llvm::any_of(word, llvm::isDigit))
        add(word, target.chip);
  }
  for (const CardInfo &card : knownCards())
    add(card.name, card.info.chip);
  size_t nearest = findNearest(chip, spellings);
  std::string hint;
  if (nearest < chips.size())
    hint = (" (did you mean '" + chips[nearest] + "'?)").str();
  return ("unknown target '" + chip + "'" + hint +
          "; known targets: " + listKnownTargets())
      .str();
}
