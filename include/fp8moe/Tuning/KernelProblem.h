//===- KernelProblem.h - What operations ask of kernels ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TUNING_KERNELPROBLEM_H
#define FP8MOE_TUNING_KERNELPROBLEM_H

#include "fp8moe/Tuning/Common/MemoryCost.h"
#include "fp8moe/Tuning/KernelFamily.h"

namespace mlir::fp8moe {

/// What operations of one kind ask for, whoever does it: their work, and how
/// one chooses among the tiles of all families.
class KernelProblem {
public:
  virtual ~KernelProblem() = default;

  virtual bool matches(Operation *op) const = 0;
  /// Calls `visit` with the work along each axis, for the assumed layouts; not
  /// at all where there is no kernel for these, whatever the target.
  virtual void
  visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
             function_ref<void(const KernelWork &)> visit) const = 0;

  /// What layout placement compares: the least cost over the tiles, or that of
  /// the tile which the operation names, impossible when that is not legal.
  /// None where moving the tensors tells layouts apart.
  virtual std::optional<Cost> estimate(Operation *op,
                                       ArrayRef<AssumedLayout> layouts,
                                       const TargetInfo &target) const = 0;
  /// The cost of what was chosen; none where `estimateKernel` says it.
  virtual std::optional<Cost> predictChoice(Operation *,
                                            const TargetInfo &) const {
    return std::nullopt;
  }
  /// Why the operation has its tile, or which ones it will have; empty where
  /// there was no choice.
  virtual std::string explainChoice(Operation *, const TargetInfo &) const {
    return "";
  }

  /// Whether the operation can name a tile, and the one that it names.
  virtual bool takesTile(Operation *) const { return false; }
  virtual TileAttrInterface getTile(Operation *) const { return {}; }
  virtual void setTile(Operation *, TileAttrInterface) const {
    llvm_unreachable("an operation without tiles");
  }
  /// Stands before the numbers of operations in names of swept functions.
  virtual StringRef getSweepPrefix() const { return ""; }
};

/// The rows of KernelFamilies.def.
ArrayRef<const KernelProblem *> getKernelProblems();
const KernelProblem *findKernelProblem(Operation *op);

/// Reports at `op` that the target has no kernel for it.
LogicalResult requireKernels(Operation *op, const TargetInfo &target);

/// The same, or that the kernels cannot read or write the tensors in the
/// layouts that they have.
LogicalResult verifyKernels(Operation *op, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_TUNING_KERNELPROBLEM_H
