//===- KernelProblem.h - What operations ask of kernels ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELPROBLEM_H
#define FP8MOE_KERNELS_MODEL_KERNELPROBLEM_H

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"

namespace mlir::fp8moe {

/// The requirements of operations of one kind, whichever family runs them:
/// their work, and how one chooses among the tiles of all families.
class KernelProblem {
public:
  virtual ~KernelProblem() = default;

  virtual bool matches(Operation *op) const = 0;
  /// Calls `visit` with the work along each axis, for the assumed layouts; not
  /// at all where there is no kernel for these, whatever the target.
  virtual void
  visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
             function_ref<void(const KernelWork &)> visit) const = 0;

  /// The cost that layout placement compares: the least cost over the tiles, or
  /// that of the tile which the operation names, impossible when that is not
  /// legal. None where moving the tensors tells layouts apart: by default where
  /// no kernel takes one of the works.
  virtual std::optional<Cost> estimate(Operation *op,
                                       ArrayRef<AssumedLayout> layouts,
                                       const TargetInfo &target) const;
  /// Whether kernels take these layouts together, where each by itself is one
  /// that they take.
  virtual bool takesTogether(Operation *, ArrayRef<AssumedLayout>) const {
    return true;
  }
  /// The cost of what was chosen; none where `estimateKernel` says it.
  virtual std::optional<Cost> predictChoice(Operation *,
                                            const TargetInfo &) const {
    return std::nullopt;
  }
  /// Why the operation has its tiles; empty where there was no choice.
  virtual std::string explainChoice(Operation *, const TargetInfo &) const {
    return "";
  }

  /// Replaces an operation whose tiles are to be chosen by those that become
  /// kernels each; itself, where it is one.
  virtual SmallVector<Operation *, 2> split(Operation *op,
                                            const TargetInfo &) const {
    return {op};
  }
  /// The choice of least predicted time of an operation that takes tiles, for
  /// which the target has kernels.
  virtual KernelChoiceAttr choose(Operation *, const TargetInfo &) const {
    llvm_unreachable("an operation without tiles");
  }
  /// The choice that an operation names, with what takes everything behind it.
  virtual KernelChoiceAttr complete(TiledOpInterface op,
                                    const TargetInfo &) const {
    return op.getTilesAttr();
  }
  /// Whether the lowering takes one tile for all sizes.
  virtual bool hasOneTile() const { return false; }
  /// Reports why the choice that an operation names, if it does, is not legal.
  virtual LogicalResult verifyChoice(TiledOpInterface op,
                                     const TargetInfo &target) const;
  /// The variant by which kernels tell operations of one name apart, as an
  /// error says it behind the name: " with scales of blocks".
  virtual StringRef getVariant(Operation *) const { return ""; }
  /// The requirements of kernels of that variant on an operation, as a note to
  /// the error that there are none; empty where its name says enough.
  virtual StringRef describeKernels(Operation *) const { return ""; }
  /// Stands before the numbers of operations in names of swept functions.
  virtual StringRef getSweepPrefix() const { return ""; }
};

/// The rows of Families.def.
ArrayRef<const KernelProblem *> getKernelProblems();
const KernelProblem *findKernelProblem(Operation *op);

/// Whether the target has kernels for what a problem says of `op`.
bool hasKernels(Operation *op, const TargetInfo &target);

/// Reports at `op` that the target has no kernel for it.
LogicalResult requireKernels(Operation *op, const TargetInfo &target);

/// As above, and also reports that the kernels cannot read or write the tensors
/// in the layouts that they have.
LogicalResult verifyKernels(Operation *op, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELPROBLEM_H
