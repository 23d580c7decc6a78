//===- TargetInfo.h - Features and limits of each chip ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chips that fp8moe compiles for, their features and limits. Passes that
// depend on the hardware only read this table. Unknown chips are rejected, not
// approximated by similar ones. Speeds are in the chip's calibration: predicted
// times rank kernels, but never decide which kernels are legal.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_TARGETINFO_H
#define FP8MOE_TARGET_TARGETINFO_H

#include "fp8moe/Target/Calibration.h"
#include "fp8moe/Target/MatrixInstruction.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitmaskEnum.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlir::fp8moe {

/// The lowering path of a chip: its LLVM pipeline, binary format and runtime.
/// Capabilities follow from Feature instead.
enum class TargetKind { CPU, NVVM, ROCDL };

/// How the hardware encodes FP8. FN is the OCP encoding (f8E4M3FN, f8E5M2);
/// FNUZ has no negative zero and no infinity (f8E4M3FNUZ, f8E5M2FNUZ).
enum class Fp8Flavour { FN, FNUZ };

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// Capabilities of a chip that kernels and launches may require.
enum class Feature : uint32_t {
  None = 0,
  /// Bulk copies of tensor boxes that a tensor map describes.
  TensorMaps = 1 << 0,
  /// Clusters of blocks that access each other's shared memory.
  Clusters = 1 << 1,
  /// Reallocation of registers between warpgroups at run time.
  RegisterReallocation = 1 << 2,
  /// Programmatic dependent launch: blocks may start before earlier kernels of
  /// the stream have finished.
  ProgrammaticLaunch = 1 << 3,
  /// Cooperative launches, whose blocks are all resident at once.
  CooperativeLaunch = 1 << 4,
  /// Loads of 16 bytes per lane from global to shared memory that bypass
  /// registers.
  DirectSharedLoads = 1 << 5,
  /// Matrix instructions of a wave on FP8 with e8m0 block scales.
  BlockScaledWaves = 1 << 6,
  /// 16-byte accesses to global memory without an alignment requirement beyond
  /// the element's.
  UnalignedVectors = 1 << 7,
  /// Scalar registers of a subgroup beside the registers of lanes. Values that
  /// are uniform in the subgroup are computed once there. Offsets of lanes are
  /// best 32-bit numbers from a uniform base.
  ScalarRegisters = 1 << 8,
  /// Packed bf16 multiplication, two products per instruction. Other chips
  /// multiply in f32 and round.
  PackedBF16Products = 1 << 9,
  /// Instructions that swap rows of 16 or 32 lanes between two registers.
  RowSwaps = 1 << 10,
  LLVM_MARK_AS_BITMASK_ENUM(RowSwaps)
};

/// A cache that all multiprocessors of a die share.
struct CacheInfo {
  /// Bytes of all dies together. A die only reads its own part.
  int64_t bytes = 0;
  int64_t dies = 1;
  /// The share of the cache that is usable for data which all multiprocessors
  /// read.
  int64_t usablePercent = 100;

  int64_t getUsableBytes() const { return bytes * usablePercent / 100; }
};

/// One chip. TargetInfo.cpp gives the source of every figure beside the entry.
/// Peaks are 0 on the CPU, which is the reference for numerics and is not tuned
/// by predicted times.
struct TargetInfo {
  /// The name that `#fp8moe.target<...>` and `--target` take.
  llvm::StringRef chip;
  TargetKind kind;
  /// The product that the figures describe, for messages and reports.
  llvm::StringRef description;
  Fp8Flavour fp8;
  Feature features;
  MatrixInstruction matrix;
  /// Rows and columns of one instruction's result, if the chip multiplies
  /// matrices by wave.
  int64_t mfmaEdge;

  /// Streaming multiprocessors (NVIDIA) or compute units (AMD).
  int64_t multiprocessors;
  /// Threads that execute together: warp (NVIDIA) or wavefront (AMD).
  int64_t warpSize;
  int64_t maxThreadsPerBlock;
  int64_t maxThreadsPerMultiprocessor;

  /// Bytes of shared memory that one block may have. On NVIDIA this needs
  /// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
  int64_t sharedMemoryPerBlock;
  /// Bytes of shared memory for all blocks that are resident at once.
  int64_t sharedMemoryPerMultiprocessor;
  /// Bytes that the system reserves of that memory for every resident block.
  int64_t sharedMemoryReservedPerBlock;

  /// 32-bit vector registers; AMD counts the accumulation registers too.
  int64_t registersPerMultiprocessor;
  int64_t maxRegistersPerThread;

  /// The last cache that all multiprocessors of a die share.
  CacheInfo l2;
  /// Bytes of the smallest transfer between L2 and memory. A partly used sector
  /// costs as much as a full one.
  int64_t sectorBytes;

  /// GB/s (10^9 bytes); the data sheet's peak of the device memory.
  double peakMemoryBandwidth;
  /// MHz; the highest clock of the multiprocessors.
  double clockMHz;
  const Calibration *calibration;

  /// The target triple, -mcpu and -mattr for LLVM.
  llvm::StringRef llvmTriple;
  llvm::StringRef llvmCpu;
  llvm::StringRef llvmFeatures;

  bool isGPU() const { return kind != TargetKind::CPU; }
  /// Returns how many blocks with so much shared memory each are resident at
  /// once, if nothing else limits them.
  int64_t countBlocksByShared(int64_t bytes) const;
  /// Whether an occupancy target that is too high costs little, as only the
  /// spilling kernel is assembled again with a lower one. Elsewhere code
  /// generation of all kernels runs again.
  bool takesBackRequests() const { return kind == TargetKind::NVVM; }
  /// Returns the vendor's names for the scopes of atomics and fences: the
  /// threads of a block, and all threads of the device.
  llvm::StringRef getBlockScope() const;
  llvm::StringRef getDeviceScope() const;
  /// Whether the chip has all features in `all`.
  bool has(Feature all) const { return (features & all) == all; }
  /// Whether `instruction` multiplies elements of `a` by elements of `b`.
  bool multiplies(MatrixElement a, MatrixElement b,
                  MatrixInstruction instruction) const {
    return matrix == instruction &&
           (a == MatrixElement::BF16) == (b == MatrixElement::BF16);
  }
};

/// Returns all known chips, CPU first, then by vendor and generation.
llvm::ArrayRef<TargetInfo> knownTargets();

/// Returns the entry for `chip`, or null if it is unknown. Names match exactly.
const TargetInfo *lookupTarget(llvm::StringRef chip);

/// Returns the known chips for diagnostics: "cpu, cpu-fnuz, ...".
std::string listKnownTargets();

/// Returns "cpu", "nvvm" or "rocdl", as in the manifest.
llvm::StringRef stringifyTargetKind(TargetKind kind);

/// Returns "fn" or "fnuz", as in the manifest.
llvm::StringRef stringifyFp8Flavour(Fp8Flavour flavour);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_TARGETINFO_H
