//===- KernelProblem.h - Requirements of operations -------------*- C++ -*-===//
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

/// The requirements of one kind of operation on kernels, independent of the
/// kernel family. Gives the operation's work and chooses among the tiles of all
/// families.
class KernelProblem {
public:
  virtual ~KernelProblem() = default;

  virtual bool matches(Operation *op) const = 0;
  /// Calls `visit` with the work along each axis, for the assumed layouts.
  /// Makes no call if no target has a kernel for these layouts.
  virtual void
  visitWorks(Operation *op, ArrayRef<AssumedLayout> layouts,
             function_ref<void(const KernelWork &)> visit) const = 0;

  /// Returns the cost that layout placement compares: that of the tile which
  /// the operation names, else the least over all tiles. An illegal tile makes
  /// the cost impossible. Returns std::nullopt if only the traffic of the
  /// tensors tells layouts apart. The default does so where a work has no
  /// kernel.
  virtual std::optional<Cost> estimate(Operation *op,
                                       ArrayRef<AssumedLayout> layouts,
                                       const TargetInfo &target) const;
  /// Whether kernels support this combination of layouts, each of which is
  /// supported on its own.
  virtual bool takesTogether(Operation *, ArrayRef<AssumedLayout>) const {
    return true;
  }
  /// Returns the cost of the chosen tiles; std::nullopt if `estimateKernel` is
  /// to predict it.
  virtual std::optional<Cost> predictChoice(Operation *,
                                            const TargetInfo &) const {
    return std::nullopt;
  }
  /// Returns the reason for the operation's tiles, or an empty string if there
  /// was no choice.
  virtual std::string explainChoice(Operation *, const TargetInfo &) const {
    return "";
  }

  /// Splits an operation before its tiles are chosen into operations of one
  /// kernel each. Returns these, or `op` itself if it needs no split.
  virtual SmallVector<Operation *, 2> split(Operation *op,
                                            const TargetInfo &) const {
    return {op};
  }
  /// Returns the tiles of least predicted time. `op` takes tiles, and the
  /// target has kernels for it.
  virtual KernelChoiceAttr choose(Operation *, const TargetInfo &) const {
    llvm_unreachable("an operation without tiles");
  }
  /// Returns the tiles that `op` names, with a fallback appended that takes
  /// every case.
  virtual KernelChoiceAttr complete(TiledOpInterface op,
                                    const TargetInfo &) const {
    return op.getTilesAttr();
  }
  /// Whether the lowering only supports one tile for all sizes.
  virtual bool hasOneTile() const { return false; }
  /// Reports why the tiles of `op`, if it has any, are not legal.
  virtual LogicalResult verifyChoice(TiledOpInterface op,
                                     const TargetInfo &target) const;
  /// Returns the variant of the operation that decides which kernels it has,
  /// for errors. It follows the operation's name: " with scales of blocks".
  virtual StringRef getVariant(Operation *) const { return ""; }
  /// Returns a note for the error that no kernel exists: the requirements of
  /// this variant's kernels. Empty if the operation's name says enough.
  virtual StringRef describeKernels(Operation *) const { return ""; }
  /// Returns the prefix of operations' numbers in the names of swept functions.
  virtual StringRef getSweepPrefix() const { return ""; }
};

/// Returns the kernel problems that Families.def lists.
ArrayRef<const KernelProblem *> getKernelProblems();
const KernelProblem *findKernelProblem(Operation *op);

/// Returns the predicted cost of a kernel or copy, with the tile that it names
/// or else its best one. Tensors whose layout is free have the assumed layouts,
/// others those of their types. The cost is impossible if the kernel cannot
/// read or write a layout.
Cost estimateKernel(Operation *op, ArrayRef<AssumedLayout> layouts,
                    const TargetInfo &target);

/// Whether the target has kernels for all work of `op`.
bool hasKernels(Operation *op, const TargetInfo &target);

/// Reports at `op` that the target has no kernel for it.
LogicalResult requireKernels(Operation *op, const TargetInfo &target);

/// As above, and also reports layouts that the kernels cannot read or write,
/// and illegal tiles.
LogicalResult verifyKernels(Operation *op, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELPROBLEM_H
