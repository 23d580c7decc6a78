//===- Families.cpp - The table of kernels --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Copy/Relayout.h"
#include "Kernels/Program/LoweringTable.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"

namespace mlir::fp8moe {
#define FP8MOE_VIEWS(NAME) const OpLowering &get##NAME##OpLowering();
#define FP8MOE_OPS(NAME)                                                       \
  const OpLowering &get##NAME##OpLowering();                                   \
  const KernelProblem &get##NAME##Problem();
#define FP8MOE_FAMILY(NAME) const KernelFamily &get##NAME##Family();
#define FP8MOE_TILED_FAMILY(NAME)                                              \
  FP8MOE_FAMILY(NAME)                                                          \
  FailureOr<Value> launch##NAME(const KernelInstance &, Value,                 \
                                ProgramLowering &);
#include "Kernels/Families.def"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

ArrayRef<const KernelFamily *> fp8moe::getKernelFamilies() {
  static const KernelFamily *const families[] = {
#define FP8MOE_FAMILY(NAME) &get##NAME##Family(),
#include "Kernels/Families.def"
  };
  return families;
}

ArrayRef<const KernelProblem *> fp8moe::getKernelProblems() {
  static const KernelProblem *const problems[] = {
#define FP8MOE_OPS(NAME) &get##NAME##Problem(),
#include "Kernels/Families.def"
  };
  return problems;
}

LoweringTable fp8moe::createLoweringTable() {
  LoweringTable table;
#define FP8MOE_VIEWS(NAME) table.ops.push_back(&get##NAME##OpLowering());
#define FP8MOE_OPS(NAME) FP8MOE_VIEWS(NAME)
#define FP8MOE_TILED_FAMILY(NAME)                                              \
  table.kernels.push_back({&get##NAME##Family(), launch##NAME});
#include "Kernels/Families.def"
  table.copyTensor = copyTensor;
  return table;
}
