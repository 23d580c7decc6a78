//===- Traffic.cpp - Bytes that a program moves ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Traffic.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fp8moe;

Bytes Bytes::of(Type type) {
  Bytes result;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return result;
  Type element = tensor.getElementType();
  // The target's own FP8 types have no width of their own, but take one byte.
  int64_t bytes =
      element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 1;
  unsigned degree = 0;
  for (int64_t extent : tensor.getShape()) {
    if (ShapedType::isDynamic(extent))
      ++degree;
    else
      bytes *= extent;
  }
  result.coefficients.assign(degree + 1, 0);
  result.coefficients[degree] = bytes;
  return result;
}

Bytes &Bytes::operator+=(const Bytes &other) {
  if (coefficients.size() < other.coefficients.size())
    coefficients.resize(other.coefficients.size(), 0);
  for (auto [mine, theirs] : llvm::zip(coefficients, other.coefficients))
    mine += theirs;
  return *this;
}

std::string Bytes::describe() const {
  std::string text;
  for (unsigned i = coefficients.size(); i-- > 0;) {
    if (coefficients[i] == 0)
      continue;
    if (!text.empty())
      text += " + ";
    text += std::to_string(coefficients[i]) + " B";
    if (i > 0)
      text += "/token";
    if (i > 1)
      text += "^" + std::to_string(i);
  }
  return text.empty() ? "0 B" : text;
}

double Bytes::at(int64_t tokens) const {
  double value = 0;
  for (int64_t coefficient : llvm::reverse(coefficients))
    value =
        value * static_cast<double>(tokens) + static_cast<double>(coefficient);
  return value;
}

std::vector<OpTraffic> fp8moe::getTraffic(func::FuncOp func) {
  std::vector<OpTraffic> result;
  func.walk([&](Operation *op) {
    if (!isa_and_nonnull<FP8MoEDialect>(op->getDialect()) ||
        isa<TransposeOp, ReshapeOp>(op))
      return;
    OpTraffic traffic{op->getName().getStringRef().str(), op->getLoc(), {}};
    llvm::SmallSetVector<Value, 4> operands(op->operand_begin(),
                                            op->operand_end());
    for (Value operand : operands)
      traffic.bytes += Bytes::of(operand.getType());
    for (Type type : op->getResultTypes())
      traffic.bytes += Bytes::of(type);
    result.push_back(std::move(traffic));
  });
  return result;
}
