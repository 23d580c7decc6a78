//===- KernelFamily.h - A way to do some work on a GPU ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The tuning half of a family of kernels: which work it takes, with which
// tiles, how fast. Its other half launches the kernels
// (lib/Kernels/Program/LoweringTable.h). They meet in the tile of the
// operation.
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

/// A legal tile, what it is predicted to cost, and what decides that, for
/// people.
struct KernelCandidate {
  const KernelFamily *family;
  /// Null where a family has one kernel for each work.
  TileAttrInterface tile;
  Cost cost;
  std::string reason;
};

class KernelFamily {
public:
  virtual ~KernelFamily() = default;

  virtual StringRef getName() const = 0;
  /// The class between this one and the family that `dyn_cast` finds it by, if
  /// there is one. Families with the same work may have different ones.
  virtual TypeID getClassID() const { return TypeID::get<KernelFamily>(); }
  /// The type of the work that its kernels do.
  virtual TypeID getWorkID() const = 0;
  /// Whether a kernel of its own has the tile. At most one family owns it.
  virtual bool owns(TileAttrInterface) const { return false; }

  /// Whether some kernel takes the work, by the capabilities and resources of
  /// the target. `work` is of its type here and below.
  virtual bool supports(const KernelWork &work,
                        const TargetInfo &target) const = 0;
  /// Appends what `supports` said yes to, in a fixed order.
  virtual void
  addCandidates(MLIRContext *context, const KernelWork &work,
                const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const = 0;
  /// Reports at `op`, whose work is supported, that a tile that it owns is not
  /// legal for it: those of `addCandidates` are.
  virtual LogicalResult verifyTile(Operation *op, const KernelWork &work,
                                   TileAttrInterface tile,
                                   const TargetInfo &target) const;
  /// Reports at `op`, whose work is supported, what in its layouts the kernels
  /// cannot read or write, as far as types say. Layouts are final by then.
  virtual LogicalResult verify(Operation *, const TargetInfo &) const {
    return success();
  }

  /// Whether its kernels take every address, pitch and size. Others need an
  /// alternative behind them.
  virtual bool isGeneral() const = 0;

  /// How its kernels walk over a tensor of `op`; none: as the operation says.
  virtual std::optional<TensorAccess>
  getWantedAccess(Operation *op, Value tensor, const TargetInfo &target) const {
    return std::nullopt;
  }
  /// The multiple to which groups that `op` contracts are padded so that its
  /// kernels need no masks, or 0.
  virtual int64_t getWantedGroupPadding(Operation *op,
                                        const TargetInfo &target) const {
    return 0;
  }
};

/// A family on GPUs whose kernels go over their tensors as these lie: they have
/// no tiles, and take every address, pitch and size.
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

/// The rows of Families.def.
ArrayRef<const KernelFamily *> getKernelFamilies();

/// The family that owns a tile, or null.
const KernelFamily *findKernelFamily(TileAttrInterface tile);

/// The first family that takes the work, or null.
const KernelFamily *findKernelFamily(const KernelWork &work,
                                     const TargetInfo &target);

/// All tiles of all families that take `work`.
SmallVector<KernelCandidate> rankTiles(MLIRContext *context,
                                       const KernelWork &work,
                                       const TargetInfo &target);

/// The candidate, or tile, of least predicted cost, the first of several.
template <typename Candidates>
const auto &chooseCandidate(const Candidates &candidates) {
  return *llvm::min_element(
      candidates, [](const auto &a, const auto &b) { return a.cost < b.cost; });
}

/// Reports at `op` that it has another tile than these.
LogicalResult emitIllegalTile(Operation *op, TileAttrInterface tile,
                              ArrayRef<KernelCandidate> candidates,
                              const TargetInfo &target);

/// How the kernels of `op` walk over an operand or result.
TensorAccess getKernelAccess(KernelOpInterface op, Value tensor,
                             const TargetInfo &target);

/// The largest multiple that some family wants groups padded to, or 0.
int64_t getBestGroupPadding(Operation *op, const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELFAMILY_H
