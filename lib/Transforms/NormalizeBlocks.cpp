//===- NormalizeBlocks.cpp - Blocks in the order of dominance -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether every block comes after its immediate dominator.
static bool isSorted(Region &region) {
  DominanceInfo dominance(region.getParentOp());
  llvm::SmallPtrSet<Block *, 8> seen{&region.front()};
  return llvm::all_of(llvm::drop_begin(region), [&](Block &block) {
    seen.insert(&block);
    return seen.contains(dominance.getNode(&block)->getIDom()->getBlock());
  });
}

bool fp8moe::normalizeBlocks(FunctionOpInterface function) {
  bool changed = false;
  IRRewriter rewriter(function.getContext());
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions()) {
      if (region.empty() || region.hasOneBlock())
        continue;
      changed |= succeeded(eraseUnreachableBlocks(rewriter, region));
      if (!isSorted(region)) {
        for (Block *block : getBlocksSortedByDominance(region))
          block->moveBefore(&region, region.end());
        changed = true;
      }
    }
  });
  return changed;
}
