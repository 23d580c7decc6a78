//===- PlanCPUEntries.cpp - One program per public function ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CPUEntries.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Conversion/PlanSignature.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PLANCPUENTRIES
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

DynamicExtents DynamicExtents::get(MemRefType type) {
  DynamicExtents extents;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      extents.sizes.push_back(dim);
  // The strides of the identity follow from the sizes.
  if (auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout()))
    for (auto [dim, stride] : llvm::enumerate(layout.getStrides()))
      if (ShapedType::isDynamic(stride))
        extents.strides.push_back(dim);
  return extents;
}

Type mlir::fp8moe::getParameterType(Value argument) {
  MLIRContext *context = argument.getContext();
  if (isa<MemRefType>(argument.getType()))
    return LLVM::LLVMPointerType::get(context);
  return IntegerType::get(context, 64);
}

namespace {

/// The launch's arguments: all buffers, then what their types leave open.
SmallVector<Value> getLaunchArguments(OpBuilder &builder, Location loc,
                                      const PlanSignature &signature) {
  SmallVector<Value> arguments;
  for (ArrayRef<BufferView> views :
       {signature.getInputs(), signature.getOutputs()})
    for (const BufferView &view : views)
      arguments.push_back(view.buffer);
  const size_t numBuffers = arguments.size();
  Type index = builder.getIndexType();
  for (size_t i = 0; i < numBuffers; ++i) {
    Value buffer = arguments[i];
    DynamicExtents extents =
        DynamicExtents::get(cast<MemRefType>(buffer.getType()));
    for (unsigned dim : extents.sizes)
      arguments.push_back(
          builder.createOrFold<plan::DimOp>(loc, index, buffer, dim));
    for (unsigned dim : extents.strides)
      arguments.push_back(
          builder.createOrFold<plan::StrideOp>(loc, index, buffer, dim));
  }
  return arguments;
}

/// Declares the kernel `name`, to be defined when the functions take memrefs.
func::FuncOp declareKernel(func::FuncOp func, StringRef name,
                           ArrayRef<Value> arguments) {
  OpBuilder builder(func);
  SmallVector<Type> parameters =
      llvm::map_to_vector(arguments, getParameterType);
  auto kernel = func::FuncOp::create(builder, func.getLoc(), name,
                                     builder.getFunctionType(parameters, {}));
  kernel.setPrivate();
  kernel->setAttr(kEntryOfAttrName, FlatSymbolRefAttr::get(func));
  return kernel;
}

/// A function's name as LLVM and linkers take it for any function's: "llvm."
/// begins an intrinsic, and "@" a version.
std::string getLinkableName(StringRef name) {
  std::string linkable = (name.starts_with("llvm.") ? "_" : "") + name.str();
  llvm::replace(linkable, '@', '_');
  return linkable;
}

struct PlanCPUEntriesPass
    : public fp8moe::impl::PlanCPUEntriesBase<PlanCPUEntriesPass> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func.isPublic())
        functions.push_back(func);
    SymbolTable symbols(getOperation());
    for (func::FuncOp func : functions)
      if (failed(planEntry(func, symbols)))
        return signalPassFailure();
  }

private:
  /// The program takes the function's name, because that is what users call.
  LogicalResult planEntry(func::FuncOp func, SymbolTable &symbols) {
    std::string name = func.getName().str();
    FailureOr<PlanSignature> signature = PlanSignature::create(func, name);
    if (failed(signature) || failed(makeRoom(func, symbols)))
      return failure();
    symbols.insert(signature->getProgram());

    OpBuilder builder = signature->getBuilder();
    Location loc = func.getLoc();
    SmallVector<Value> arguments = getLaunchArguments(builder, loc, *signature);
    std::string kernel =
        getUniqueName(symbols, getLinkableName(name) + "_kernel");
    symbols.insert(declareKernel(func, kernel, arguments));
    Value one = arith::ConstantIndexOp::create(builder, loc, 1);
    plan::LaunchOp::create(
        builder, loc, FlatSymbolRefAttr::get(builder.getContext(), kernel),
        {one, one, one}, /*block=*/{1, 1, 1}, /*sharedBytes=*/0, arguments);
    return success();
  }

  /// Gives the function another name.
  static LogicalResult makeRoom(func::FuncOp func, SymbolTable &symbols) {
    std::string linkable = getLinkableName(func.getName());
    if (linkable == func.getName())
      return symbols.renameToUnique(func, {&symbols});
    return symbols.rename(func, getUniqueName(symbols, linkable));
  }

  static std::string getUniqueName(SymbolTable &symbols, std::string name) {
    std::string unique = name;
    for (unsigned i = 0; symbols.lookup(unique); ++i)
      unique = name + "_" + std::to_string(i);
    return unique;
  }
};

} // namespace
