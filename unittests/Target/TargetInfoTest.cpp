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
  // Similar names are refused, as a similar chip is a different one.
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
}

TEST(TargetInfo, SaysWhereNoCardRanAKernel) {
  for (const TargetInfo &info : knownTargets())
    if (info.isGPU())
      EXPECT_EQ(info.calibration->copyBandwidth.source !=
                    FigureSource::Measured,
                info.calibration->evidence.contains("never run"))
          << info.chip.str();
  for (llvm::StringRef chip : {"gfx942", "gfx950"})
    EXPECT_TRUE(lookupTarget(chip)->calibration->evidence.contains(
        "checked in an emulator, never run on a card"));
}

TEST(TargetInfo, EveryFigureHasASource) {
  for (const TargetInfo &info : knownTargets()) {
    SCOPED_TRACE(info.chip.str());
    const Calibration &calibration = *info.calibration;
    for (const Figure<double> &figure :
         {calibration.copyBandwidth, calibration.fp8TFlops,
          calibration.bf16TFlops})
      EXPECT_FALSE(figure.note.empty());
    for (const Figure<int64_t> &figure :
         {calibration.launchTime, calibration.copyDependency,
          calibration.byteTransposePercent, calibration.transposePercent})
      EXPECT_FALSE(figure.note.empty());
  }
}

TEST(TargetInfo, MatrixInstructionsFollowTheGeneration) {
  for (const TargetInfo &info : knownTargets())
    for (MatrixElement a :
         {MatrixElement::E4M3, MatrixElement::E5M2, MatrixElement::BF16}) {
      SCOPED_TRACE(info.chip.str());
      auto expect = [&](MatrixInstruction instruction, bool expected) {
        EXPECT_EQ(info.multiplies(a, a, instruction), expected);
        EXPECT_EQ(info.multiplies(a, MatrixElement::E4M3, instruction),
                  expected && a != MatrixElement::BF16);
      };
      expect(MatrixInstruction::Wgmma, info.chip == "sm_90a");
      expect(MatrixInstruction::Tcgen05, info.chip == "sm_100a");
      expect(MatrixInstruction::Mfma, info.kind == TargetKind::ROCDL);
    }
}

TEST(TargetInfo, FeaturesAreAskedForTogether) {
  const TargetInfo &hopper = *lookupTarget("sm_90a");
  EXPECT_TRUE(hopper.has(Feature::TensorMaps | Feature::Clusters));
  const TargetInfo &amd = *lookupTarget("gfx942");
  EXPECT_TRUE(amd.has(Feature::CooperativeLaunch));
  EXPECT_FALSE(amd.has(Feature::CooperativeLaunch | Feature::TensorMaps));
  EXPECT_FALSE(lookupTarget("cpu")->has(Feature::CooperativeLaunch));
}

TEST(TargetInfo, EveryGPUHasCompleteFigures) {
  for (const TargetInfo &info : knownTargets()) {
    SCOPED_TRACE(info.chip.str());
    EXPECT_FALSE(info.description.empty());
    EXPECT_FALSE(info.calibration->evidence.empty());
    EXPECT_GT(info.sectorBytes, 0);
    EXPECT_GT(*info.calibration->copyBandwidth, 0);
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
    EXPECT_NE(info.matrix, MatrixInstruction::None);
    EXPECT_GT(info.l2.getUsableBytes(), 0);
    EXPECT_LE(info.l2.getUsableBytes(), info.l2.bytes);
    EXPECT_EQ(info.l2.bytes % info.l2.dies, 0);
    EXPECT_GT(info.clockMHz, 0);
    EXPECT_GT(*info.calibration->fp8TFlops, *info.calibration->bf16TFlops);
    // A copy cannot be faster than the peak memory bandwidth.
    EXPECT_LT(*info.calibration->copyBandwidth, info.peakMemoryBandwidth);
  }
}

} // namespace
