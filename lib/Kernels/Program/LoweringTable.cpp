//===- LoweringTable.cpp - What operations become -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LoweringTable.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::fp8moe;

const OpLowering *LoweringTable::findOpLowering(Operation *op) const {
  auto *row = llvm::find_if(
      ops, [&](const OpLowering *entry) { return entry->matches(op); });
  return row == ops.end() ? nullptr : *row;
}

bool LoweringTable::writesResults(Operation *op) const {
  const OpLowering *row = findOpLowering(op);
  return row && row->writesResults;
}

std::string LoweringTable::listOps() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::ListSeparator comma;
  for (const OpLowering *row : ArrayRef(ops).drop_back())
    os << comma << row->name;
  os << " and " << ops.back()->name;
  return text;
}

const KernelLowering *
LoweringTable::findKernelLowering(TileAttrInterface tile) const {
  auto *row = llvm::find_if(kernels, [&](const KernelLowering &entry) {
    return entry.family->owns(tile);
  });
  return row == kernels.end() ? nullptr : row;
}
