//===- KernelResources.h - Resources of compiled kernels --------*- C++ -*-===//
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

/// Numbers of instructions by the unit that executes them.
struct InstructionMix {
  /// Matrix instructions; other vector instructions; accesses to shared memory;
  /// accesses to global and local memory; and all others, once per wave: scalar
  /// arithmetic, branches, waits.
  int64_t matrix = 0, vector = 0, shared = 0, memory = 0, scalar = 0;

  int64_t getTotal() const {
    return matrix + vector + shared + memory + scalar;
  }
};

/// Resources of one kernel, as ptxas or the code object reports them. Fields
/// that a vendor does not have are 0.
struct KernelResources {
  std::string kernel;
  /// 32-bit registers per thread; on AMD the vector registers.
  int64_t registers = 0;
  /// AMD: accumulation registers per thread and scalar registers per wave.
  int64_t accumulationRegisters = 0;
  int64_t scalarRegisters = 0;
  /// AMD: scalar registers that were spilled to lanes of vector registers, at
  /// one instruction per access and without memory.
  int64_t laneSpills = 0;
  /// Bytes of static shared memory per block.
  int64_t staticSharedBytes = 0;
  /// Bytes of local memory per thread.
  int64_t stackBytes = 0;
  /// Bytes (NVIDIA) or registers (AMD) that were spilled to memory. Emission
  /// rejects kernels with spills, so that tools only see 0.
  int64_t spills = 0;
  /// AMD: the largest block that the kernel was compiled for.
  int64_t maxThreadsPerBlock = 0;
  /// AMD: instructions of one iteration of the loop with the most matrix
  /// instructions. Not set without such a loop.
  std::optional<InstructionMix> mainLoop;
};

/// Reads the resources of every kernel from the metadata of a code object, in
/// its order. Reports at `loc` why they cannot be read.
FailureOr<SmallVector<KernelResources>> readHsacoResources(StringRef hsaco,
                                                           Location loc);

/// Disassembles the kernels of `resources` and sets KernelResources::mainLoop
/// of each. Leaves it unset if this LLVM has no disassembler for the chip.
LogicalResult readMainLoops(StringRef hsaco, const TargetInfo &target,
                            MutableArrayRef<KernelResources> resources,
                            Location loc);

} // namespace mlir::fp8moe

#endif // FP8MOE_ARTIFACT_KERNELRESOURCES_H
