//===- ArgumentComments.cpp - Arguments of kernels as comments ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::fp8moe;

static void describeBuffer(Value buffer, raw_ostream &os) {
  if (auto input = buffer.getDefiningOp<plan::InputOp>())
    os << "input '" << input.getBufferName() << "'";
  else if (auto output = buffer.getDefiningOp<plan::OutputOp>())
    os << "output '" << output.getBufferName() << "'";
  else
    os << "a buffer of the workspace";
}

static void describeArgument(Value argument, raw_ostream &os) {
  if (isa<MemRefType>(argument.getType())) {
    os << "address of ";
    describeBuffer(argument, os);
    return;
  }
  if (auto map = argument.getDefiningOp<plan::TensorMapOp>()) {
    os << "tensor map of ";
    describeBuffer(map.getBuffer(), os);
    return;
  }
  APInt constant;
  if (auto dim = argument.getDefiningOp<plan::DimOp>()) {
    os << "extent " << dim.getDimension() << " of ";
    describeBuffer(dim.getBuffer(), os);
  } else if (auto stride = argument.getDefiningOp<plan::StrideOp>()) {
    os << "stride " << stride.getDimension() << " of ";
    describeBuffer(stride.getBuffer(), os);
  } else if (matchPattern(argument, m_ConstantInt(&constant))) {
    os << constant;
  } else {
    os << "a size that the manifest computes";
  }
}

void mlir::fp8moe::printArgumentComments(ModuleOp module, StringRef comment,
                                         raw_ostream &os) {
  llvm::StringSet<> printed;
  module.walk([&](plan::LaunchOp launch) {
    StringRef kernel = launch.getKernel().getLeafReference();
    if (!printed.insert(kernel).second)
      return;
    os << comment << " " << kernel << " is called with these arguments:\n";
    for (auto [index, argument] : llvm::enumerate(launch.getArgs())) {
      os << comment << "   " << index << ": ";
      describeArgument(argument, os);
      os << "\n";
    }
  });
}
