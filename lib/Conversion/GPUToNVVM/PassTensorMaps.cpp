//===- PassTensorMaps.cpp - Tensor maps as parameters by value ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Target/NVIDIA.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_PASSTENSORMAPS
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

/// The numbers of a function's parameters that are tensor maps.
static constexpr StringLiteral kTensorMapsAttrName = "fp8moe_plan.tensor_maps";

static void noteTensorMaps(gpu::GPUFuncOp function) {
  SmallVector<int32_t> indices;
  for (unsigned index : llvm::seq(function.getNumArguments()))
    if (function.getArgAttr(index, plan::PlanDialect::kTensorMapAttrName))
      indices.push_back(index);
  if (!indices.empty())
    function->setAttr(kTensorMapsAttrName,
                      DenseI32ArrayAttr::get(function.getContext(), indices));
}

static void passTensorMaps(LLVM::LLVMFuncOp function) {
  auto indices = llvm::dyn_cast_or_null<DenseI32ArrayAttr>(
      function->removeAttr(kTensorMapsAttrName));
  if (!indices)
    return;
  Builder builder(function.getContext());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(),
                                       nvidia::kTensorMapObjectBytes);
  std::pair<StringRef, Attribute> attributes[] = {
      {LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(type)},
      {LLVM::LLVMDialect::getAlignAttrName(),
       builder.getI64IntegerAttr(nvidia::kTensorMapObjectAlignment)},
      {NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr()}};
  for (int32_t index : indices.asArrayRef())
    for (auto [name, value] : attributes)
      function.setArgAttr(index, name, value);
}

namespace {
struct PassTensorMaps : fp8moe::impl::PassTensorMapsBase<PassTensorMaps> {
  void runOnOperation() override {
    for (Operation &op : *getOperation().getBody())
      llvm::TypeSwitch<Operation *>(&op)
          .Case([](gpu::GPUFuncOp function) { noteTensorMaps(function); })
          .Case([](LLVM::LLVMFuncOp function) { passTensorMaps(function); });
  }
};
} // namespace
