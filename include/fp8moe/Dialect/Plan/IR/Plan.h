//===- Plan.h - The host plan dialect ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_PLAN_IR_PLAN_H
#define FP8MOE_DIALECT_PLAN_IR_PLAN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <array>
#include <optional>

namespace mlir::fp8moe::plan {

/// The program's interface to its caller, as a resource of side effects.
struct ProgramInterfaceResource
    : public SideEffects::Resource::Base<ProgramInterfaceResource> {
  StringRef getName() final { return "ProgramInterface"; }
};

/// The name that the manifest gives an element type ("BF16", "F8_E4M3", ...),
/// as in safetensors, or nothing when buffers cannot have it.
std::optional<StringRef> getManifestDtype(Type elementType);

/// The most blocks that a cluster has on every device with clusters.
inline constexpr int64_t kMaxClusterBlocks = 8;

/// Whether a program may contain `op`, an operation of the arith dialect: the
/// manifest can express it.
bool isAllowedArithmetic(Operation *op);

/// The static stride of dimension `dim` in elements, ShapedType::kDynamic when
/// it is only known at run time.
int64_t getStaticStride(MemRefType type, unsigned dim);

} // namespace mlir::fp8moe::plan

#include "fp8moe/Dialect/Plan/IR/PlanDialect.h.inc"

#include "fp8moe/Dialect/Plan/IR/PlanEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanAttributes.h.inc"

#define GET_OP_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanOps.h.inc"

#endif // FP8MOE_DIALECT_PLAN_IR_PLAN_H
