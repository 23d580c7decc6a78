//===- Precision.cpp - Reports of precision decisions ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Driver/Report.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

static std::string describeSize(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}

/// The matmul of one group: rows x contraction x columns, and how many groups.
static std::string describeShape(MatmulOpInterface op) {
  ArrayRef<int64_t> a = op.getA().getType().getShape();
  std::string shape =
      formatv("{0} x {1} x {2}", describeSize(a[0]), describeSize(a[1]),
              describeSize(op.getB().getType().getShape().back()));
  if (op.isDense())
    return shape;
  int64_t groups = op.getOffsets().getType().getDimSize(0);
  return formatv("{0}, {1} groups", shape, describeSize(groups));
}

std::vector<PrecisionDecision> fp8moe::collectPrecision(ModuleOp module) {
  std::vector<PrecisionDecision> decisions;
  llvm::SetVector<Attribute> seen;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func.isPublic() || func.isExternal())
      continue;
    func.walk([&](MatmulOpInterface op) {
      PrecisionAttr precision = op.getPrecisionAttr();
      if (precision && seen.insert(precision))
        decisions.push_back({precision.getChoice(), precision.getName().str(),
                             precision.getUse(), precision.getRecipe(),
                             precision.getBf16Ns(), precision.getFp8Ns(),
                             precision.getReason().str(), describeShape(op)});
    });
  }
  return decisions;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// Nanoseconds of all matmuls together.
struct Totals {
  int64_t bf16 = 0, fp8 = 0, chosen = 0;

  static Totals get(ArrayRef<PrecisionDecision> decisions) {
    Totals totals;
    for (const PrecisionDecision &decision : decisions) {
      bool isFP8 = decision.choice == PrecisionChoice::FP8;
      totals.bf16 += decision.bf16Ns;
      // A matmul that cannot be FP8 stays as it is.
      totals.fp8 += decision.fp8Ns ? decision.fp8Ns : decision.bf16Ns;
      totals.chosen += isFP8 ? decision.fp8Ns : decision.bf16Ns;
    }
    return totals;
  }
};
} // namespace

static std::string describeTime(int64_t ns) {
  return ns ? formatv("{0:f1}", ns / 1e3).str() : "-";
}

/// Names are cut at the front: layers and modules tell them apart at the end.
static std::string shorten(StringRef name, size_t width) {
  if (name.size() <= width)
    return name.str();
  return "..." + name.take_back(width - 3).str();
}

void fp8moe::printPrecision(llvm::raw_ostream &os,
                            ArrayRef<PrecisionDecision> decisions) {
  if (decisions.empty())
    return;
  auto printRow = [&](StringRef name, StringRef use, StringRef shape,
                      StringRef bf16, StringRef fp8, StringRef choice,
                      StringRef reason) {
    std::string line = formatv("{0,-34} {1,-7} {2,-28} {3,9} {4,9}  {5,-5} {6}",
                               name, use, shape, bf16, fp8, choice, reason);
    os << StringRef(line).rtrim() << "\n";
  };
  printRow("  matmul, predicted", "use", "rows x contraction x columns",
           "bf16 us", "FP8 us", "", "why");
  for (const PrecisionDecision &decision : decisions) {
    printRow("    " + shorten(decision.name, 30),
             stringifyMatmulUse(decision.use), decision.shape,
             describeTime(decision.bf16Ns), describeTime(decision.fp8Ns),
             stringifyPrecisionChoice(decision.choice), decision.reason);
  }
  Totals totals = Totals::get(decisions);
  if (!totals.chosen)
    return;
  printRow("    all together", "", "", describeTime(totals.bf16),
           describeTime(totals.fp8), "", "");
  os << formatv("    as decided {0:f1} us, {1:f2}x as fast as all in bf16, "
                "{2:f2}x as all in FP8\n",
                totals.chosen / 1e3,
                static_cast<double>(totals.bf16) / totals.chosen,
                static_cast<double>(totals.fp8) / totals.chosen);
}

llvm::json::Array
fp8moe::serializePrecision(ArrayRef<PrecisionDecision> decisions) {
  llvm::json::Array array;
  for (const PrecisionDecision &decision : decisions) {
    llvm::json::Object object{
        {"name", llvm::json::fixUTF8(decision.name)},
        {"use", stringifyMatmulUse(decision.use)},
        {"shape", decision.shape},
        {"choice", stringifyPrecisionChoice(decision.choice)},
        {"recipe", stringifyPrecisionRecipe(decision.recipe)},
        {"reason", llvm::json::fixUTF8(decision.reason)}};
    // 0 is not predicted.
    if (decision.bf16Ns)
      object["bf16_ns"] = decision.bf16Ns;
    if (decision.fp8Ns)
      object["fp8_ns"] = decision.fp8Ns;
    array.push_back(std::move(object));
  }
  return array;
}
