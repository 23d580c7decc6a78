//===- TargetInfo.h - What is known about each target -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chips that fp8moe compiles for. A pass that depends on the hardware reads
// the limits from here and nowhere else; a chip that is not in the table is
// refused, never approximated by a similar one.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TARGET_TARGETINFO_H
#define FP8MOE_TARGET_TARGETINFO_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlir::fp8moe {

/// The lowering path that a chip takes.
enum class TargetKind { CPU, NVVM, ROCDL };

/// How the hardware encodes FP8. FN is the OCP encoding (f8E4M3FN, f8E5M2);
/// FNUZ has no negative zero and no infinity (f8E4M3FNUZ, f8E5M2FNUZ).
enum class Fp8Flavour { FN, FNUZ };

/// One chip. The source of every figure is in TargetInfo.cpp beside the entry;
/// figures of time (bandwidths, clock, FLOP rates) are 0 on the CPU, whose path
/// is the reference for numerics and is not tuned by predicted time.
struct TargetInfo {
  /// The name that `#fp8moe.target<...>` and `--target` take.
  llvm::StringRef chip;
  TargetKind kind;
  /// For people: the product whose figures these are.
  llvm::StringRef description;
  /// For people: on what results and predicted times of this chip rest. Says so
  /// where no card ran a kernel, and where times come from data sheets.
  llvm::StringRef evidence;
  Fp8Flavour fp8;

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

  /// Warpgroups multiply operands in shared memory (Hopper's wgmma).
  bool hasWarpgroupMatmul;

  /// GB/s (10^9 bytes); the data sheet's peak of the device memory.
  double peakMemoryBandwidth;
  /// GB/s (10^9 bytes); what a large device-to-device copy reaches, counting
  /// bytes read and bytes written. 0 when nobody of the project measured it.
  double measuredCopyBandwidth;
  /// Bytes; the last cache that is shared by all multiprocessors of one die (on
  /// AMD the sum over dies; a die reads only its own part).
  int64_t l2Bytes;
  /// Tensor maps and the asynchronous copies that they describe.
  bool hasTensorMaps;
  /// Bytes; the least transfer between L2 and memory. A partly used sector
  /// costs as much as a full one.
  int64_t sectorBytes;
  /// MHz; the highest clock of the multiprocessors.
  double clockMHz;
  /// TFLOP/s; the data sheet's dense matrix rates (2:4 sparsity not counted).
  double fp8TFlops;
  double bf16TFlops;

  /// What LLVM is told: target triple, -mcpu and -mattr.
  llvm::StringRef llvmTriple;
  llvm::StringRef llvmCpu;
  llvm::StringRef llvmFeatures;

  bool isGPU() const { return kind != TargetKind::CPU; }
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

/// The largest finite E4M3 value of a flavour: 448 (FN) or 240 (FNUZ).
double maxE4M3(Fp8Flavour flavour);

} // namespace mlir::fp8moe

#endif // FP8MOE_TARGET_TARGETINFO_H
