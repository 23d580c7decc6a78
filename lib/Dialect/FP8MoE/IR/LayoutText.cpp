//===- LayoutText.cpp - Layouts for people --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/LayoutText.h"

#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace mlir::fp8moe;

std::string fp8moe::describeLayout(const StridedLayout &layout) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](StringRef what, ArrayRef<int64_t> numbers) {
    os << what << " [";
    llvm::interleaveComma(numbers, os, [&](int64_t number) {
      if (ShapedType::isDynamic(number))
        os << "?";
      else
        os << number;
    });
    os << "]";
  };
  if (!layout.dense)
    print("strides", layout.strides);
  else if (llvm::is_sorted(layout.order))
    os << "row-major";
  else if (layout.order.size() == 2)
    os << "column-major";
  else
    print("order", layout.order);
  if (layout.align)
    os << " aligned to " << layout.align << " bytes";
  if (layout.groups)
    os << " with groups padded to " << layout.groups.getPad();
  return text;
}

std::string fp8moe::describeLayout(RankedTensorType type) {
  if (std::optional<StridedLayout> layout = StridedLayout::get(type))
    return describeLayout(*layout);
  return debugString(type.getEncoding());
}
