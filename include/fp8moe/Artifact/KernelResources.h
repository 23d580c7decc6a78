//===- KernelResources.h - What a compiled kernel occupies ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_ARTIFACT_KERNELRESOURCES_H
#define FP8MOE_ARTIFACT_KERNELRESOURCES_H

#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mlir::fp8moe {

struct TargetInfo;

/// Instructions by the unit that executes them.
struct InstructionMix {
  /// Products of matrices; all others on vector registers; accesses of shared
  /// memory, and of memory behind it; and everything that a wave does once:
  /// scalars, branches, waits.
  int64_t matrix = 0, vector = 0, shared = 0, memory = 0, scalar = 0;

  int64_t getTotal() const {
    return matrix + vector + shared + memory + scalar;
  }
};

/// Figures of ptxas or of the code object about one kernel. Figures that a
/// vendor does not have are 0.
struct KernelResources {
  std::string kernel;
  /// 32-bit registers per thread; on AMD the vector registers.
  int64_t registers = 0;
  /// AMD: accumulation registers per thread and scalar registers per wave.
  int64_t accumulationRegisters = 0;
  int64_t scalarRegisters = 0;
  /// AMD: scalars that did not fit and went to lanes of vector registers, which
  /// takes an instruction each way and no memory.
  int64_t laneSpills = 0;
  /// Bytes of shared memory per block that are not asked for at launch.
  int64_t staticSharedBytes = 0;
  /// Bytes of local memory per thread.
  int64_t stackBytes = 0;
  /// Bytes (NVIDIA) or registers (AMD) that did not fit and went to memory.
  /// Emission refuses kernels where this is not 0, so that tools never see
  /// another value.
  int64_t spills = 0;
  /// AMD: the largest block that the kernel was compiled for.
  int64_t maxThreadsPerBlock = 0;
  /// AMD: of one trip through the loop in which most matrices are multiplied;
  /// none where none are.
  std::optional<InstructionMix> mainLoop;
};

/// Reads the resources of every kernel from the metadata of a code object, in
/// its order, or reports at `loc` why they cannot be read.
FailureOr<SmallVector<KernelResources>> readHsacoResources(StringRef hsaco,
                                                           Location loc);

/// Disassembles the kernels of `resources` and finds their main loops. Leaves
/// them empty where this LLVM has no disassembler for the chip.
LogicalResult readMainLoops(StringRef hsaco, const TargetInfo &target,
                            MutableArrayRef<KernelResources> resources,
                            Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_KERNELRESOURCES_H
