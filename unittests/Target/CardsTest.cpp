//===- CardsTest.cpp - Tests of the table of cards ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/Cards.h"
#include "fp8moe/Target/Calibration.h"

#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir::fp8moe;

namespace {

TEST(Cards, ListsEachOnce) {
  EXPECT_EQ(describeUnknownCard(""),
            "unknown card ''; known cards: h200, h100, h100-pcie, gh200, h20");
  llvm::StringSet<> names;
  for (const CardInfo &card : knownCards()) {
    EXPECT_TRUE(names.insert(card.name).second) << card.name.str();
    EXPECT_EQ(lookupCard(card.name), &card);
  }
  EXPECT_EQ(lookupCard("H100"), nullptr);
  EXPECT_EQ(lookupCard(""), nullptr);
}

/// Returns NAME of "(did you mean 'NAME'?)", or an empty string.
std::string getMeaning(llvm::StringRef text) {
  return text.split("did you mean '").second.split("'").first.str();
}

TEST(Cards, UnknownNamesMeanTheNearest) {
  auto meansCard = [](const char *name) {
    return getMeaning(describeUnknownCard(name));
  };
  EXPECT_EQ(meansCard("H100"), "h100");
  EXPECT_EQ(meansCard("H100 PCIe"), "h100-pcie");
  EXPECT_EQ(meansCard("gb200"), "gh200");
  EXPECT_EQ(meansCard("b300"), "");
  auto meansTarget = [](const char *name) {
    return getMeaning(describeUnknownTarget(name));
  };
  EXPECT_EQ(meansTarget("sm90"), "sm_90a");
  EXPECT_EQ(meansTarget("sm_100"), "sm_100a");
  EXPECT_EQ(meansTarget("H20"), "sm_90a");
  EXPECT_EQ(meansTarget("b200"), "sm_100a");
  EXPECT_EQ(meansTarget("MI355X"), "gfx950");
  EXPECT_EQ(meansTarget("CPU"), "cpu");
  EXPECT_EQ(meansTarget("cpu_fnuz"), "cpu-fnuz");
  // A name with another number is another chip.
  EXPECT_EQ(meansTarget("sm_80"), "");
  EXPECT_EQ(meansTarget("gfx90a"), "");
}

TEST(Cards, TheTableOfChipsHasAnH200) {
  const TargetInfo &chip = *lookupTarget("sm_90a");
  const TargetInfo &card = lookupCard("h200")->info;
  EXPECT_EQ(card.description, chip.description);
  EXPECT_EQ(card.multiprocessors, chip.multiprocessors);
  EXPECT_EQ(card.l2.bytes, chip.l2.bytes);
  EXPECT_EQ(card.peakMemoryBandwidth, chip.peakMemoryBandwidth);
  EXPECT_EQ(card.clockMHz, chip.clockMHz);
  EXPECT_EQ(card.calibration, chip.calibration);
}

TEST(Cards, CopiesAreNoFasterThanMemory) {
  for (const CardInfo &card : knownCards()) {
    double copy = *card.info.calibration->copyBandwidth;
    EXPECT_LT(copy, card.info.peakMemoryBandwidth) << card.name.str();
    EXPECT_GT(copy, 0.85 * card.info.peakMemoryBandwidth) << card.name.str();
  }
}

} // namespace
