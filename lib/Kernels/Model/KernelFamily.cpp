//===- KernelFamily.cpp - A way to do some work on a GPU ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

const KernelFamily *fp8moe::findKernelFamily(TileAttrInterface tile) {
  for (const KernelFamily *family : getKernelFamilies())
    if (family->owns(tile))
      return family;
  return nullptr;
}

static bool takes(const KernelFamily &family, const KernelWork &work,
                  const TargetInfo &target) {
  return family.getWorkID() == work.getTypeID() &&
         family.supports(work, target);
}

const KernelFamily *fp8moe::findKernelFamily(const KernelWork &work,
                                             const TargetInfo &target) {
  for (const KernelFamily *family : getKernelFamilies())
    if (takes(*family, work, target))
      return family;
  return nullptr;
}

SmallVector<KernelCandidate> fp8moe::rankTiles(MLIRContext *context,
                                               const KernelWork &work,
                                               const TargetInfo &target) {
  SmallVector<KernelCandidate> candidates;
  for (const KernelFamily *family : getKernelFamilies())
    if (takes(*family, work, target))
      family->addCandidates(context, work, target, candidates);
  return candidates;
}

/// How much one tile is like another one: fields in which they agree, and their
/// kind.
static int64_t countInCommon(TileAttrInterface a, TileAttrInterface b) {
  SmallVector<TileField> others = b.getFields();
  return (a.getTypeID() == b.getTypeID()) +
         llvm::count_if(a.getFields(), [&](const TileField &field) {
           return llvm::any_of(others, [&](const TileField &other) {
             return field.name == other.name && field.value == other.value;
           });
         });
}

/// As many of the candidates as somebody reads: those that are most like
/// `tile`, the earlier ones of several.
static SmallVector<TileAttrInterface>
getNearest(ArrayRef<KernelCandidate> candidates, TileAttrInterface tile) {
  constexpr size_t kMostListed = 12;
  SmallVector<std::pair<int64_t, size_t>> order;
  for (auto [index, candidate] : llvm::enumerate(candidates))
    order.push_back({-countInCommon(candidate.tile, tile), index});
  if (order.size() > kMostListed) {
    llvm::sort(order);
    order.truncate(kMostListed);
  }
  return llvm::map_to_vector(
      order, [&](auto entry) { return candidates[entry.second].tile; });
}

LogicalResult fp8moe::emitIllegalTile(Operation *op, TileAttrInterface tile,
                                      ArrayRef<KernelCandidate> candidates,
                                      const TargetInfo &target) {
  SmallVector<TileAttrInterface> nearest = getNearest(candidates, tile);
  bool areMore = nearest.size() < candidates.size();
  InFlightDiagnostic diagnostic = op->emitError("'");
  diagnostic << op->getName() << "' has the tile " << describeTile(tile)
             << ", but on target " << target.chip << " its layouts take ";
  if (areMore)
    diagnostic << candidates.size() << " tiles, such as ";
  diagnostic << llvm::join(llvm::map_range(nearest, describeTile), ", ")
             << "; use one of these or none";
  if (areMore)
    diagnostic << ", for which fp8moe-select-tiles{print-candidates} lists all";
  return diagnostic;
}

LogicalResult KernelFamily::verifyTile(Operation *op, const KernelWork &work,
                                       TileAttrInterface tile,
                                       const TargetInfo &target) const {
  SmallVector<KernelCandidate> candidates =
      rankTiles(op->getContext(), work, target);
  if (llvm::any_of(candidates, [&](const KernelCandidate &candidate) {
        return candidate.tile == tile;
      }))
    return success();
  return emitIllegalTile(op, tile, candidates, target);
}

TensorAccess fp8moe::getKernelAccess(KernelOpInterface op, Value tensor,
                                     const TargetInfo &target) {
  for (const KernelFamily *family : getKernelFamilies())
    if (std::optional<TensorAccess> access =
            family->getWantedAccess(op, tensor, target))
      return *access;
  return op.getTensorAccess(tensor, target);
}

int64_t fp8moe::getBestGroupPadding(Operation *op, const TargetInfo &target) {
  int64_t padding = 0;
  for (const KernelFamily *family : getKernelFamilies())
    padding = std::max(padding, family->getWantedGroupPadding(op, target));
  return padding;
}
