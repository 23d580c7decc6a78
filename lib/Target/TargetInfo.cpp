//===- TargetInfo.cpp - Features and limits of each chip ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/TargetInfo.h"
#include "ChipTables.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <limits>

using namespace mlir::fp8moe;

namespace {

constexpr int64_t kibi = 1024;
constexpr int64_t mebi = 1024 * kibi;

/// The reference path: one thread, the x86-64 baseline, so that the same input
/// gives the same bytes on every machine.
TargetInfo cpu(llvm::StringLiteral chip, llvm::StringLiteral description,
               Fp8Flavour fp8) {
  TargetInfo info = {};
  info.chip = chip;
  info.kind = TargetKind::CPU;
  info.description = description;
  info.fp8 = fp8;
  info.multiprocessors = 1;
  info.warpSize = 1;
  info.maxThreadsPerBlock = 1;
  info.maxThreadsPerMultiprocessor = 1;
  // The cache line of every x86-64 processor.
  info.sectorBytes = 64;
  info.calibration = &cpuCalibration;
  info.llvmTriple = llvm::StringLiteral("x86_64-unknown-linux-gnu");
  info.llvmCpu = llvm::StringLiteral("x86-64");
  info.llvmFeatures = llvm::StringLiteral("");
  return info;
}

/// NVIDIA H200. Limits: CUDA C++ Programming Guide, compute capability 9.0, and
/// device attributes read from the card (132 multiprocessors, 60 MiB L2, 1980
/// MHz, 227 KiB opt-in shared memory, 1 KiB reserved). Features: PTX ISA 8.3.
/// Each half of the L2 cache keeps what its half of the chip reads, so a tensor
/// that all read takes twice its size. Peak: NVIDIA H200 data sheet. PTX 8.3
/// (CUDA 12.3) is the oldest that has every instruction that we emit. Evidence:
/// docs/results; the tests of lit and pytest that need a device.
TargetInfo sm90a() {
  TargetInfo info = {};
  info.chip = llvm::StringLiteral("sm_90a");
  info.kind = TargetKind::NVVM;
  info.description = llvm::StringLiteral("NVIDIA H200 (Hopper)");
  info.fp8 = Fp8Flavour::FN;
  info.features = Feature::TensorMaps | Feature::Clusters |
                  Feature::RegisterReallocation | Feature::ProgrammaticLaunch |
                  Feature::CooperativeLaunch | Feature::PackedBF16Products;
  info.matrix = MatrixInstruction::Wgmma;
  info.multiprocessors = 132;
  info.warpSize = 32;
  info.maxThreadsPerBlock = 1024;
  info.maxThreadsPerMultiprocessor = 2048;
  info.sharedMemoryPerBlock = 227 * kibi;
  info.sharedMemoryPerMultiprocessor = 228 * kibi;
  info.sharedMemoryReservedPerBlock = 1 * kibi;
  info.registersPerMultiprocessor = 64 * kibi;
  info.maxRegistersPerThread = 255;
  info.l2 = {60 * mebi, /*dies=*/1, /*usablePercent=*/50};
  info.sectorBytes = 32;
  info.peakMemoryBandwidth = h200Bandwidth;
  info.clockMHz = 1980;
  info.calibration = &h200Calibration;
  info.llvmTriple = llvm::StringLiteral("nvptx64-nvidia-cuda");
  info.llvmCpu = llvm::StringLiteral("sm_90a");
  info.llvmFeatures = llvm::StringLiteral("+ptx83");
  return info;
}

/// NVIDIA B200. Limits: CUDA C++ Programming Guide, compute capability 10.0.
/// Multiprocessors, L2 and clock: the published device attributes of the card,
/// which is two dies. That their caches copy each other as an H200's halves do
/// is assumed. Peak: NVIDIA HGX B200 data sheet (eight cards: 62 TB/s). No card
/// was measured for this project.
/// PTX 8.7 (CUDA 12.8) is what its block scaling conversions need.
/// Evidence: the tests assemble its PTX where they find ptxas.
TargetInfo sm100a() {
  TargetInfo info = sm90a();
  info.chip = llvm::StringLiteral("sm_100a");
  info.description = llvm::StringLiteral("NVIDIA B200 (Blackwell)");
  info.matrix = MatrixInstruction::Tcgen05;
  info.multiprocessors = 148;
  info.l2 = {126 * mebi, /*dies=*/2, /*usablePercent=*/50};
  info.peakMemoryBandwidth = b200Bandwidth;
  info.clockMHz = 1965;
  info.calibration = &b200Calibration;
  info.llvmCpu = llvm::StringLiteral("sm_100a");
  info.llvmFeatures = llvm::StringLiteral("+ptx87");
  return info;
}

/// AMD Instinct MI300X. Limits: "AMD Instinct MI300" instruction set
/// architecture reference (64 KiB LDS, 512 vector registers per lane of which
/// half are accumulation registers, four 16-lane SIMDs, 8 waves each); caches
/// and compute units: AMD CDNA 3 white paper (304 units on eight dies with 4
/// MiB L2 each, 128-byte lines, requests to memory of 64 bytes). Matrix
/// instructions: V_MFMA_F32_32X32X16 for FP8, V_MFMA_F32_32X32X8_BF16. Peak:
/// MI300X data sheet. No card was measured for this project. Evidence: the
/// numerics suite in an emulator of the instruction set (FP8MOE_HSACO_RUNNER).
TargetInfo gfx942() {
  TargetInfo info = {};
  info.chip = llvm::StringLiteral("gfx942");
  info.kind = TargetKind::ROCDL;
  info.description = llvm::StringLiteral("AMD Instinct MI300X (CDNA 3)");
  info.fp8 = Fp8Flavour::FNUZ;
  info.features = Feature::CooperativeLaunch | Feature::UnalignedVectors |
                  Feature::ScalarRegisters;
  info.matrix = MatrixInstruction::Mfma;
  info.mfmaEdge = 32;
  info.multiprocessors = 304;
  info.warpSize = 64;
  info.maxThreadsPerBlock = 1024;
  info.maxThreadsPerMultiprocessor = 2048;
  info.sharedMemoryPerBlock = 64 * kibi;
  info.sharedMemoryPerMultiprocessor = 64 * kibi;
  info.sharedMemoryReservedPerBlock = 0;
  info.registersPerMultiprocessor = 128 * kibi;
  info.maxRegistersPerThread = 512;
  info.l2 = {32 * mebi, /*dies=*/8, /*usablePercent=*/100};
  info.sectorBytes = 64;
  info.peakMemoryBandwidth = mi300xBandwidth;
  info.clockMHz = 2100;
  info.calibration = &mi300xCalibration;
  info.llvmTriple = llvm::StringLiteral("amdgcn-amd-amdhsa");
  info.llvmCpu = llvm::StringLiteral("gfx942");
  info.llvmFeatures = llvm::StringLiteral("");
  return info;
}

/// AMD Instinct MI355X. Limits: "AMD CDNA 4" instruction set architecture
/// reference (160 KiB LDS, loads of 16 bytes to it, v_mfma_scale) and white
/// paper (256 compute units on eight dies, caches as gfx942); FP8 is the OCP
/// encoding, unlike gfx942. Matrix instructions: V_MFMA_F32_16X16X128_F8F6F4
/// without scales and V_MFMA_F32_16X16X32_BF16; small ones draw less power.
/// Peak: MI355X data sheet. No card was measured for this project. Evidence: as
/// gfx942.
TargetInfo gfx950() {
  TargetInfo info = gfx942();
  info.chip = llvm::StringLiteral("gfx950");
  info.description = llvm::StringLiteral("AMD Instinct MI355X (CDNA 4)");
  info.fp8 = Fp8Flavour::FN;
  info.features |= Feature::DirectSharedLoads | Feature::BlockScaledWaves |
                   Feature::RowSwaps;
  info.mfmaEdge = 16;
  info.multiprocessors = 256;
  info.sharedMemoryPerBlock = 160 * kibi;
  info.sharedMemoryPerMultiprocessor = 160 * kibi;
  info.peakMemoryBandwidth = mi355xBandwidth;
  info.clockMHz = 2400;
  info.calibration = &mi355xCalibration;
  info.llvmCpu = llvm::StringLiteral("gfx950");
  return info;
}
} // namespace

int64_t TargetInfo::countBlocksByShared(int64_t bytes) const {
  int64_t taken = bytes + sharedMemoryReservedPerBlock;
  return taken ? sharedMemoryPerMultiprocessor / taken
               : std::numeric_limits<int64_t>::max();
}

llvm::StringRef TargetInfo::getBlockScope() const {
  return kind == TargetKind::ROCDL ? "workgroup" : "block";
}

llvm::StringRef TargetInfo::getDeviceScope() const {
  return kind == TargetKind::ROCDL ? "agent" : "device";
}

llvm::ArrayRef<TargetInfo> mlir::fp8moe::knownTargets() {
  static const TargetInfo table[] = {
      cpu("cpu", "x86-64 reference with the FP8 encodings of NVIDIA and gfx950",
          Fp8Flavour::FN),
      cpu("cpu-fnuz", "x86-64 reference with the FP8 encodings of gfx942",
          Fp8Flavour::FNUZ),
      sm90a(),
      sm100a(),
      gfx942(),
      gfx950(),
  };
  return table;
}

const TargetInfo *mlir::fp8moe::lookupTarget(llvm::StringRef chip) {
  llvm::ArrayRef<TargetInfo> targets = knownTargets();
  const TargetInfo *it = llvm::find_if(
      targets, [&](const TargetInfo &info) { return info.chip == chip; });
  return it == targets.end() ? nullptr : it;
}

std::string mlir::fp8moe::listKnownTargets() {
  return llvm::join(
      llvm::map_range(knownTargets(),
                      [](const TargetInfo &info) { return info.chip; }),
      ", ");
}

llvm::StringRef mlir::fp8moe::stringifyTargetKind(TargetKind kind) {
  switch (kind) {
  case TargetKind::CPU:
    return "cpu";
  case TargetKind::NVVM:
    return "nvvm";
  case TargetKind::ROCDL:
    return "rocdl";
  }
  llvm_unreachable("unknown target kind");
}

llvm::StringRef mlir::fp8moe::stringifyFp8Flavour(Fp8Flavour flavour) {
  return flavour == Fp8Flavour::FN ? "fn" : "fnuz";
}
