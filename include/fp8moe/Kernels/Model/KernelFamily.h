//===- KernelFamily.h - A way to do some work on a GPU ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The cost model of a kernel family: the work that it supports, its tiles, and
// their predicted times. The other half of a family launches the kernels
// (lib/Kernels/Program/LoweringTable.h). The tile of the operation connects
// both.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELFAMILY_H
#define FP8MOE_KERNELS_MODEL_KERNELFAMILY_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/KernelWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"

#include <string>

namespace mlir::fp8moe {
class KernelFamily;

/// A legal tile, its predicted cost, and the reason for that cost as text.
struct KernelCandidate {
  const KernelFamily *family;
  /// Null if the family has one kernel per work.
  TileAttrInterface tile;
  Cost cost;
  std::string reason;
};

class KernelFamily {
public:
  virtual ~KernelFamily() = default;

  virtual StringRef getName() const = 0;
  /// Returns the class that derives from KernelFamily and that `dyn_cast` tests
  /// for, if there is one. Families with the same work may have different
  /// classes.
  virtual TypeID getClassID() const { return TypeID::get<KernelFamily>(); }
  /// Returns the TypeID of the KernelWork that the family's kernels do.
  virtual TypeID getWorkID() const = 0;
  /// Whether `tile` belongs to a kernel of this family. At most one family owns
  /// a tile.
  virtual bool owns(TileAttrInterface) const { return false; }

  /// Whether some kernel supports the work, given the capabilities and
  /// resources of the target. Here and below `work` has the type of
  /// getWorkID().
  virtual bool supports(const KernelWork &work,
                        const TargetInfo &target) const = 0;
  /// Appends the tiles for a work that `supports` accepts, in a fixed order.
  virtual void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const = 0;
  /// Reports at `op`, whose work is supported, a tile of this family that is
  /// not legal for it. By default only tiles of `addCandidates` are legal.
  virtual LogicalResult verifyTile(Operation *op, const KernelWork &work,
                                   TileAttrInterface tile,
                                   const TargetInfo &target) const;
  /// Reports at `op`, whose work is supported, layouts that the kernels cannot
  /// read or write, as far as types tell. Runs when layouts are final.
  virtual LogicalResult verify(Operation *, const TargetInfo &) const {
    return success();
  }

  /// Whether the kernels support every address, pitch and size. Other kernels
  /// need a fallback as a later alternative.
  virtual bool isGeneral() const = 0;

  /// Returns how the kernels access a tensor of `op`; std::nullopt for the
  /// access that the operation declares.
  virtual std::optional<TensorAccess>
  getWantedAccess(Operation *op, Value tensor, const TargetInfo &target) const {
    return std::nullopt;
  }
  /// Returns the multiple to which contracted groups must be padded so that the
  /// kernels need no masks, or 0.
  virtual int64_t getWantedGroupPadding(Operation *op,
                                        const TargetInfo &target) const {
    return 0;
  }
};

/// A GPU kernel family without tiles, whose kernels process tensors in memory
/// order. They support every address, pitch and size.
template <typename Work> class UntiledFamily : public KernelFamily {
public:
  TypeID getWorkID() const final { return TypeID::get<Work>(); }
  bool supports(const KernelWork &work, const TargetInfo &target) const final {
    return target.isGPU() && takes(cast<Work>(work), target);
  }
  void addCandidates(MLIRContext *, const KernelWork &work,
                     const TargetInfo &target,
                     SmallVectorImpl<KernelCandidate> &candidates) const final {
    candidates.push_back({this, {}, predict(cast<Work>(work), target), ""});
  }
  bool isGeneral() const final { return true; }

protected:
  virtual bool takes(const Work &, const TargetInfo &) const { return true; }
  virtual Cost predict(const Work &work, const TargetInfo &target) const = 0;
};

/// Returns the kernel families that Families.def lists.
ArrayRef<const KernelFamily *> getKernelFamilies();

/// Returns the family that owns a tile, or null.
const KernelFamily *findKernelFamily(TileAttrInterface tile);

/// Returns the first family that supports the work, or null.
const KernelFamily *findKernelFamily(const KernelWork &work,
                                     const TargetInfo &target);

/// Returns the tiles of all families that support `work`.
SmallVector<KernelCandidate> rankTiles(MLIRContext *context,
                                       const KernelWork &work,
                                       const TargetInfo &target);

/// Returns the candidate of least predicted cost, the first one in case of
/// ties.
template <typename Candidates>
const auto &chooseCandidate(const Candidates &candidates) {
  return *llvm::min_element(
      candidates, [](const auto &a, const auto &b) { return a.cost < b.cost; });
}

/// Reports at `op` that `tile` is none of `candidates`, and lists those most
/// like it.
LogicalResult emitIllegalTile(Operation *op, TileAttrInterface tile,
                              ArrayRef<KernelCandidate> candidates,
                              const TargetInfo &target);

/// Returns how the kernels of `op` access an operand or result.
TensorAccess getKernelAccess(KernelOpInterface op, Value tensor,
                             const TargetInfo &target);

/// Returns the largest getWantedGroupPadding() of all families, or 0.
int64_t getBestGroupPadding(Operation *op, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELFAMILY_H
