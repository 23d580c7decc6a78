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

/// Returns the manifest's name of an element type ("BF16", "F8_E4M3", ...), as
/// in safetensors. Returns std::nullopt for types that buffers cannot have.
std::optional<StringRef> getManifestDtype(Type elementType);

/// The largest number of blocks in a cluster that every device with clusters
/// supports.
inline constexpr int64_t kMaxClusterBlocks = 8;

/// Whether the manifest can express `op`, an operation of the arith dialect, so
/// that a program may contain it.
bool isAllowedArithmetic(Operation *op);

/// Returns the stride of dimension `dim` in elements, or ShapedType::kDynamic
/// if the type does not give it.
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
