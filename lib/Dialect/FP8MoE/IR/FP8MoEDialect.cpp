//===- FP8MoEDialect.cpp - The fp8moe dialect -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.cpp.inc"

void FP8MoEDialect::initialize() {}
