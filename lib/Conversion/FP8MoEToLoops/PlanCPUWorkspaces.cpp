//===- PlanCPUWorkspaces.cpp - Intermediate buffers of CPU programs -------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel cannot say that malloc failed; a caller that allocates the workspace
// can. So a buffer whose size follows from the sizes of inputs is planned by
// the program.
//
//===----------------------------------------------------------------------===//

#include "CPUEntries.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PLANCPUWORKSPACES
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// A line of a processor's cache.
static constexpr int64_t kWorkspaceAlignment = 64;

namespace {

/// Computes sizes of a function in the program that launches it.
class SizePlanner {
public:
  SizePlanner(plan::LaunchOp launch, func::FuncOp body)
      : launch(launch), body(body), builder(launch) {}

  /// The size in the program; null when it does not follow from the sizes of
  /// the function's arguments.
  Value plan(Value size) {
    if (Value known = planned.lookupOrNull(size))
      return known;
    Operation *op = size.getDefiningOp();
    Value result;
    if (auto dim = dyn_cast_or_null<memref::DimOp>(op))
      result = planExtent(dim);
    else if (op && plan::isAllowedArithmetic(op))
      result = planArithmetic(op);
    if (result)
      planned.map(size, result);
    return result;
  }

private:
  Value planExtent(memref::DimOp dim) {
    auto argument = dyn_cast<BlockArgument>(dim.getSource());
    std::optional<int64_t> index = dim.getConstantIndex();
    if (!argument || argument.getOwner() != &body.front() || !index)
      return {};
    return builder.createOrFold<plan::DimOp>(
        dim.getLoc(), builder.getIndexType(),
        launch.getArgs()[argument.getArgNumber()], *index);
  }

  Value planArithmetic(Operation *op) {
    for (Value operand : op->getOperands())
      if (!plan(operand))
        return {};
    return builder.clone(*op, planned)->getResult(0);
  }

  plan::LaunchOp launch;
  func::FuncOp body;
  OpBuilder builder;
  IRMapping planned;
};

struct PlanCPUWorkspacesPass
    : public fp8moe::impl::PlanCPUWorkspacesBase<PlanCPUWorkspacesPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    getOperation().walk([&](plan::LaunchOp launch) {
      auto kernel = symbols.lookup<func::FuncOp>(
          launch.getKernel().getLeafReference().getValue());
      auto entryOf =
          kernel ? kernel->getAttrOfType<FlatSymbolRefAttr>(kEntryOfAttrName)
                 : FlatSymbolRefAttr();
      auto body = entryOf ? symbols.lookup<func::FuncOp>(entryOf.getAttr())
                          : func::FuncOp();
      if (body && !body.isExternal())
        planBuffers(launch, kernel, body);
    });
  }

private:
  void planBuffers(plan::LaunchOp launch, func::FuncOp kernel,
                   func::FuncOp body) {
    SizePlanner planner(launch, body);
    SmallVector<Value> workspaces;
    // Buffers in regions live as often as the region runs.
    for (auto alloc :
         llvm::make_early_inc_range(body.front().getOps<memref::AllocOp>())) {
      MemRefType type = alloc.getType();
      SmallVector<Value> sizes =
          llvm::map_to_vector(alloc.getDynamicSizes(),
                              [&](Value size) { return planner.plan(size); });
      if (!plan::getManifestDtype(type.getElementType()) ||
          !type.getLayout().isIdentity() || llvm::is_contained(sizes, Value()))
        continue;
      OpBuilder builder(launch);
      workspaces.push_back(plan::WorkspaceOp::create(
          builder, alloc.getLoc(), type, sizes, /*strides=*/ValueRange(),
          kWorkspaceAlignment));
      (void)body.insertArgument(body.getNumArguments(), type,
                                /*argAttrs=*/{}, alloc.getLoc());
      alloc.replaceAllUsesWith(body.getArguments().back());
      alloc.erase();
    }
    if (!workspaces.empty())
      addArguments(launch, kernel, workspaces);
  }

  /// The pointers of all buffers come first, then the sizes that are open.
  void addArguments(plan::LaunchOp launch, func::FuncOp kernel,
                    ArrayRef<Value> workspaces) {
    OpBuilder builder(launch);
    SmallVector<Value> arguments(launch.getArgs());
    auto *firstSize = llvm::find_if_not(arguments, [](Value argument) {
      return isa<MemRefType>(argument.getType());
    });
    arguments.insert(firstSize, workspaces.begin(), workspaces.end());
    for (Value workspace : workspaces)
      for (unsigned dim :
           DynamicExtents::get(cast<MemRefType>(workspace.getType())).sizes)
        arguments.push_back(builder.createOrFold<plan::DimOp>(
            launch.getLoc(), builder.getIndexType(), workspace, dim));
    launch.getArgsMutable().assign(arguments);
    kernel.setType(builder.getFunctionType(
        llvm::map_to_vector(arguments, getParameterType), {}));
  }
};

} // namespace
