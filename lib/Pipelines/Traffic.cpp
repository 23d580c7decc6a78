//===- Traffic.cpp - Bytes that a program moves ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Pipelines/Traffic.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Pipelines/Decisions.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

using Size = Bytes::Size;

Bytes Bytes::of(Type type, ArrayRef<Size> sizes) {
  Bytes result;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return result;
  Type element = tensor.getElementType();
  // The target's own FP8 types have no width of their own, but take one byte.
  uint64_t bytes =
      element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 1;
  std::vector<Size> unknown;
  for (auto [extent, size] : llvm::zip_equal(tensor.getShape(), sizes)) {
    if (ShapedType::isDynamic(extent))
      unknown.push_back(size);
    else
      bytes = llvm::SaturatingMultiply<uint64_t>(bytes, extent);
  }
  llvm::sort(unknown);
  result.terms[unknown] = bytes;
  return result;
}

Bytes &Bytes::operator+=(const Bytes &other) {
  for (const auto &[unknown, coefficient] : other.terms)
    terms[unknown] = llvm::SaturatingAdd(terms[unknown], coefficient);
  return *this;
}

static StringRef getName(Size size, bool isPlural) {
  switch (size) {
  case Size::Token:
    return isPlural ? "tokens" : "token";
  case Size::Group:
    return isPlural ? "groups" : "group";
  case Size::Other:
    return "?";
  }
  llvm_unreachable("unknown size");
}

std::string Bytes::describe() const {
  std::string text;
  // The largest products first.
  auto order = llvm::to_vector(
      llvm::map_range(terms, [](const auto &term) { return &term; }));
  llvm::stable_sort(order, [](const auto *a, const auto *b) {
    return std::pair(a->first.size(), a->first) >
           std::pair(b->first.size(), b->first);
  });
  for (const auto *term : order) {
    const auto &[unknown, coefficient] = *term;
    if (coefficient == 0)
      continue;
    if (!text.empty())
      text += " + ";
    text += std::to_string(coefficient) + " B";
    if (unknown.size() == 1 && unknown[0] != Size::Other) {
      text += "/" + getName(unknown[0], /*isPlural=*/false).str();
      continue;
    }
    for (Size size : unknown)
      text += " x " + getName(size, /*isPlural=*/true).str();
  }
  return text.empty() ? "0 B" : text;
}

std::optional<double> Bytes::at(int64_t tokens) const {
  double value = 0;
  for (const auto &[unknown, coefficient] : terms) {
    auto product = static_cast<double>(coefficient);
    for (Size size : unknown) {
      if (size == Size::Other)
        return std::nullopt;
      product *=
          static_cast<double>(size == Size::Token ? tokens : kNominalSegments);
    }
    value += product;
  }
  return value;
}

/// Whether the first dimension of a tensor counts jagged groups or experts.
static bool isByGroup(Operation *op, Value tensor, RankedTensorType type) {
  bool isItsOwn = llvm::is_contained(op->getOperands(), tensor) ||
                  llvm::is_contained(op->getResults(), tensor);
  if (isa<RowOpInterface>(op) || !isItsOwn)
    return false;
  // Offsets are the only other integers.
  if (type.getElementType().isInteger() || type.getRank() == 3)
    return type.getRank() > 0;
  if (auto matmul = dyn_cast<GroupedMatmulOp>(op)) // rows of a have one each
    return type.getElementType().isF32() && type.getRank() == 2 &&
           (tensor == matmul.getScaleA() || tensor == matmul.getScaleB());
  if (auto quantize = dyn_cast<JaggedDynamicQuantizeOp>(op))
    return tensor == quantize.getScales().front();
  // Scales of experts' matrices.
  auto isByExpert = [](Value input) {
    return cast<RankedTensorType>(input.getType()).getRank() == 3;
  };
  if (auto quantize = dyn_cast<DynamicQuantizeOp>(op))
    return isByExpert(quantize.getInput());
  if (auto scale = dyn_cast<ScaleOp>(op))
    return isByExpert(scale.getInput());
  if (auto cast = dyn_cast<QuantizeOp>(op))
    return (cast.getOffsets() || isByExpert(cast.getInput())) &&
           tensor == cast.getScale();
  if (auto cast = dyn_cast<DequantizeOp>(op))
    return (cast.getOffsets() || isByExpert(cast.getInput())) &&
           tensor == cast.getScale();
  return isa<JaggedScaleOp>(op) && tensor == op->getResult(0);
}

/// The tensors that the kernel of an operation reads and writes.
static llvm::SmallSetVector<Value, 8> getTensors(Operation *op) {
  llvm::SmallSetVector<Value, 8> tensors;
  auto insert = [&](ValueRange values) {
    for (Value value : values)
      if (isa<RankedTensorType>(value.getType()))
        tensors.insert(value);
  };
  auto isComputed = [](Operation *op) {
    auto rows = dyn_cast_or_null<RowOpInterface>(op);
    return rows && isComputedByReaders(rows);
  };
  if (isComputed(op))
    return tensors;
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    insert(isComputed(source) ? source->getOperands() : ValueRange(operand));
  }
  insert(op->getResults());
  return tensors;
}

Bytes fp8moe::getBytes(Operation *op) {
  llvm::SmallSetVector<Value, 8> tensors = getTensors(op);
  auto getType = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType());
  };
  bool isAmbiguous = llvm::any_of(tensors, [&](Value tensor) {
    RankedTensorType type = getType(tensor);
    return llvm::count_if(
               type.getShape().drop_front(isByGroup(op, tensor, type)),
               ShapedType::isDynamic) > 1;
  });
  Bytes bytes;
  for (Value tensor : tensors) {
    RankedTensorType type = getType(tensor);
    SmallVector<Size> sizes(type.getRank(),
                            isAmbiguous ? Size::Other : Size::Token);
    if (isByGroup(op, tensor, type))
      sizes.front() = Size::Group;
    bytes += Bytes::of(type, sizes);
  }
  return bytes;
}

std::vector<OpTraffic> fp8moe::getTraffic(func::FuncOp func) {
  std::vector<OpTraffic> result;
  func.walk([&](Operation *op) {
    if (!isa_and_nonnull<FP8MoEDialect>(op->getDialect()) ||
        isa<TransposeOp, ReshapeOp>(op))
      return;
    result.push_back({op->getName().getStringRef().str(), getLine(op->getLoc()),
                      getBytes(op), isa<ContiguousOp, RelayoutOp>(op)});
  });
  return result;
}
