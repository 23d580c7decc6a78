//===- TargetInfoTest.cpp - Tests of the target table ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/TargetInfo.h"

#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir::fp8moe;

namespace {

TEST(TargetInfo, ListsEveryChipOnce) {
  EXPECT_EQ(listKnownTargets(),
            "cpu, cpu-fnuz, sm_90a, sm_100a, gfx942, gfx950");
  llvm::StringSet<> names;
  for (const TargetInfo &info : knownTargets())
    EXPECT_TRUE(names.insert(info.chip).second) << info.chip.str();
}

TEST(TargetInfo, LookupMatchesExactly) {
  ASSERT_NE(lookupTarget("gfx942"), nullptr);
  EXPECT_EQ(lookupTarget("gfx942")->chip, "gfx942");
  // Near misses are refused: a similar chip is a different one.
  EXPECT_EQ(lookupTarget("sm_90"), nullptr);
  EXPECT_EQ(lookupTarget("GFX942"), nullptr);
  EXPECT_EQ(lookupTarget(""), nullptr);
}

TEST(TargetInfo, Fp8FlavourFollowsTheHardware) {
  EXPECT_EQ(lookupTarget("sm_90a")->fp8, Fp8Flavour::FN);
  EXPECT_EQ(lookupTarget("gfx942")->fp8, Fp8Flavour::FNUZ);
  EXPECT_EQ(lookupTarget("gfx950")->fp8, Fp8Flavour::FN);
  EXPECT_EQ(lookupTarget("cpu")->fp8, Fp8Flavour::FN);
  EXPECT_EQ(lookupTarget("cpu-fnuz")->fp8, Fp8Flavour::FNUZ);
  EXPECT_EQ(maxE4M3(Fp8Flavour::FN), 448.0);
  EXPECT_EQ(maxE4M3(Fp8Flavour::FNUZ), 240.0);
}

TEST(TargetInfo, SaysWhereNoCardRanAKernel) {
  for (const TargetInfo &info : knownTargets())
    if (info.isGPU())
      EXPECT_EQ(info.measuredCopyBandwidth == 0,
                info.evidence.contains("never run"))
          << info.chip.str();
  for (llvm::StringRef chip : {"gfx942", "gfx950"})
    EXPECT_TRUE(lookupTarget(chip)->evidence.contains(
        "checked in an emulator, never run on a card"));
}

TEST(TargetInfo, EveryGPUHasCompleteFigures) {
  for (const TargetInfo &info : knownTargets()) {
    SCOPED_TRACE(info.chip.str());
    EXPECT_FALSE(info.description.empty());
    EXPECT_FALSE(info.evidence.empty());
    EXPECT_FALSE(info.llvmTriple.empty());
    if (!info.isGPU())
      continue;
    EXPECT_GT(info.multiprocessors, 0);
    EXPECT_EQ(info.maxThreadsPerBlock % info.warpSize, 0);
    EXPECT_GE(info.maxThreadsPerMultiprocessor, info.maxThreadsPerBlock);
    EXPECT_EQ(info.sharedMemoryPerBlock + info.sharedMemoryReservedPerBlock,
              info.sharedMemoryPerMultiprocessor);
    EXPECT_GT(info.registersPerMultiprocessor, 0);
    EXPECT_GT(info.maxRegistersPerThread, 0);
    EXPECT_GT(info.l2Bytes, 0);
    EXPECT_GT(info.sectorBytes, 0);
    EXPECT_GT(info.clockMHz, 0);
    EXPECT_GT(info.fp8TFlops, info.bf16TFlops);
    // A copy cannot be faster than the memory.
    EXPECT_LT(info.measuredCopyBandwidth, info.peakMemoryBandwidth);
  }
}

} // namespace
