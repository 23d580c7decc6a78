//===- TargetInfo.h - What is known about each target -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chips that fp8moe compiles for: what each can do, and its limits. A pass
// that depends on the hardware reads them from here and nowhere else; a chip
// that is not in the table is refused, never approximated by a similar one. How
// fast it is, and how that is known, is in its calibration: times decide among
// kernels that run, never which do.
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

/// The lowering path that a chip takes: its LLVM pipeline, binary and runtime.
/// The abilities of a chip follow from its features instead.
enum class TargetKind { CPU, NVVM, ROCDL };

/// How the hardware encodes FP8. FN is the OCP encoding (f8E4M3FN, f8E5M2);
/// FNUZ has no negative zero and no infinity (f8E4M3FNUZ, f8E5M2FNUZ).
enum class Fp8Flavour { FN, FNUZ };

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// Abilities of a chip that kernels and launches may require.
enum class Feature : uint32_t {
  None = 0,
  /// Copies of boxes that a tensor map describes.
  TensorMaps = 1 << 0,
  /// Blocks that read each other's shared memory.
  Clusters = 1 << 1,
  /// Warpgroups that hand registers to each other.
  RegisterReallocation = 1 << 2,
  /// Blocks that begin before earlier kernels have ended.
  ProgrammaticLaunch = 1 << 3,
  /// Launches whose blocks are all resident at once.
  CooperativeLaunch = 1 << 4,
  /// Loads of 16 bytes a lane that go to shared memory without registers.
  DirectSharedLoads = 1 << 5,
  /// Matrix instructions of waves that take FP8 with e8m0 scales of blocks.
  BlockScaledWaves = 1 << 6,
  /// Accesses of 16 bytes to global memory that begin at any element.
  UnalignedVectors = 1 << 7,
  /// Registers of a subgroup beside those of lanes: numbers that all lanes have
  /// in common are computed once. Lanes best count in 32 bits from an origin
  /// that they share.
  ScalarRegisters = 1 << 8,
  /// Two products of bf16 in one instruction. Elsewhere they are computed in
  /// f32 and rounded.
  PackedBF16Products = 1 << 9,
  /// Instructions that swap rows of 16 or 32 lanes between two registers.
  RowSwaps = 1 << 10,
  LLVM_MARK_AS_BITMASK_ENUM(RowSwaps)
};

/// A cache that all multiprocessors read through.
struct CacheInfo {
  /// All dies together; a die reads only its own part.
  int64_t bytes = 0;
  int64_t dies = 1;
  /// The part of it that data which all multiprocessors read may take.
  int64_t usablePercent = 100;

  int64_t getUsableBytes() const { return bytes * usablePercent / 100; }
};

/// One chip. The source of every figure is in TargetInfo.cpp beside the entry;
/// the peaks are 0 on the CPU, whose path is the reference for numerics and is
/// not tuned by predicted time.
struct TargetInfo {
  /// The name that `#fp8moe.target<...>` and `--target` take.
  llvm::StringRef chip;
  TargetKind kind;
  /// For people: the product whose figures these are.
  llvm::StringRef description;
  Fp8Flavour fp8;
  Feature features;
  MatrixInstruction matrix;
  /// Rows and columns of the result of one instruction, where waves multiply.
  int64_t mfmaEdge;

  /// Streaming multiprocessors (NVIDIA) or compute units (AMD).
  int64_t multiprocessors;
  /// Threads that execute together: warp (NVIDIA) or wavefront (AMD).
  int64_t warpSize;
  int64_t maxThreadsPerBlock;
  int64_t maxThreadsPerMultiprocessor;

  /// Bytes; the most that one block may have, on NVIDIA after opting in with
  /// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
  int64_t sharedMemoryPerBlock;
  /// Bytes; shared by the blocks that are resident at once.
  int64_t sharedMemoryPerMultiprocessor;
  /// Bytes that the system takes from the above for every resident block.
  int64_t sharedMemoryReservedPerBlock;

  /// 32-bit vector registers; AMD counts the accumulation registers too.
  int64_t registersPerMultiprocessor;
  int64_t maxRegistersPerThread;

  /// The last cache that all multiprocessors of a die share.
  CacheInfo l2;
  /// Bytes; the least transfer between L2 and memory. A partly used sector
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
  /// How many blocks that have so many bytes of shared memory each are resident
  /// at once, as far as that limits them.
  int64_t countBlocksByShared(int64_t bytes) const;
  /// Whether asking for too many resident blocks costs little: a kernel that
  /// spills gets fewer blocks, and is assembled again. Elsewhere all kernels
  /// are generated again.
  bool takesBackRequests() const { return kind == TargetKind::NVVM; }
  /// Names in the vendor's backend for the scopes of atomic accesses and
  /// fences: the threads of a block, and all threads of the device.
  llvm::StringRef getBlockScope() const;
  llvm::StringRef getDeviceScope() const;
  /// Whether it has all of several features.
  bool has(Feature all) const { return (features & all) == all; }
  /// Whether `instruction` multiplies elements of `a` by elements of `b`.
  bool multiplies(MatrixElement a, MatrixElement b,
                  MatrixInstruction instruction) const {
    return matrix == instruction &&
           (a == MatrixElement::BF16) == (b == MatrixElement::BF16);
  }
};

/// All known chips, CPU first, then by vendor and generation.
llvm::ArrayRef<TargetInfo> knownTargets();

/// The entry for `chip`, or null when it is unknown. Names match exactly.
const TargetInfo *lookupTarget(llvm::StringRef chip);

/// The known chips as "cpu, cpu-fnuz, ...", for diagnostics.
std::string listKnownTargets();

/// "cpu", "nvvm" or "rocdl", as in the manifest.
llvm::StringRef stringifyTargetKind(TargetKind kind);

/// "fn" or "fnuz", as in the manifest.
llvm::StringRef stringifyFp8Flavour(Fp8Flavour flavour);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_TARGETINFO_H
