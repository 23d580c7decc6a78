//===- Decisions.cpp - Decisions on every kernel --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Pipelines/Decisions.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/Views.h"
#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/KernelChoice.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Pipelines/Traffic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::fp8moe;

std::optional<unsigned> fp8moe::getLine(Location loc) {
  std::optional<unsigned> line;
  loc->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColRange>(inner);
    if (!file)
      return WalkResult::advance();
    line = file.getStartLine();
    return WalkResult::interrupt();
  });
  return line;
}

static std::vector<std::string> describeLayouts(ValueRange tensors) {
  std::vector<std::string> layouts;
  for (Value tensor : tensors)
    if (auto type = dyn_cast<RankedTensorType>(tensor.getType()))
      layouts.push_back(describeLayout(type));
  return layouts;
}

/// Adds a line for each alternative; those of one axis begin with `axis`.
static void describeTiles(KernelChoiceAttr choice, const Twine &axis,
                          std::vector<std::string> &lines) {
  for (AlternativeAttr alternative : choice.getEntries()) {
    auto perAxis = dyn_cast<PerAxisAttr>(alternative.getTile());
    if (!perAxis) {
      lines.push_back((axis + describeAlternative(alternative)).str());
      continue;
    }
    for (auto [index, each] : llvm::enumerate(perAxis.getChoices()))
      describeTiles(cast<KernelChoiceAttr>(each), "axis " + Twine(index) + ": ",
                    lines);
  }
}

static std::string getInputName(BlockArgument argument, func::FuncOp func) {
  auto name = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                FP8MoEDialect::kNameAttrName);
  return name ? name.str() : "arg" + std::to_string(argument.getArgNumber());
}

/// The ends of groups are the only integers that an operation takes.
static BlockArgument findEnds(Operation *op) {
  for (Value operand : op->getOperands())
    if (getElementTypeOrSelf(operand).isInteger(32))
      return dyn_cast<BlockArgument>(skipOps(operand, movesNothing));
  return {};
}

static std::vector<PaddedInput> findPaddedInputs(func::FuncOp func,
                                                 Operation *op) {
  std::vector<PaddedInput> found;
  BlockArgument ends = findEnds(op);
  if (!ends || ends.getOwner() != &func.front())
    return found;
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(skipOps(operand, movesNothing));
    auto type = argument ? dyn_cast<RankedTensorType>(argument.getType())
                         : RankedTensorType();
    std::optional<StridedLayout> layout =
        type ? StridedLayout::get(type) : std::nullopt;
    if (!layout || !layout->groups || argument.getOwner() != ends.getOwner())
      continue;
    PaddedInput input{getInputName(argument, func), getInputName(ends, func),
                      layout->groups.getDim(), layout->groups.getPad(),
                      std::nullopt};
    auto packing = dyn_cast<RelayoutOp>(op);
    if (packing && !packing.getType().isDynamicDim(input.dim))
      input.rows = packing.getType().getDimSize(input.dim);
    found.push_back(std::move(input));
  }
  return found;
}

static bool hasUnknownSizes(Operation *op) {
  auto isUnknown = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.hasStaticShape();
  };
  return llvm::any_of(op->getOperandTypes(), isUnknown) ||
         llvm::any_of(op->getResultTypes(), isUnknown);
}

/// KernelDecision::leastTime for so many tokens; none where the bytes are not
/// known, or more than models hold.
static std::optional<int64_t>
getLeastTime(Operation *op, int64_t tokens,
             const std::optional<MatmulWork> &matmul,
             const TargetInfo &target) {
  std::optional<double> bytes = getBytes(op).at(tokens);
  if (!bytes || *bytes > static_cast<double>(kMostModelledBytes))
    return std::nullopt;
  const Calibration &calibration = *target.calibration;
  double least = *bytes / *calibration.copyBandwidth;
  if (matmul) {
    double teraFlops = matmul->elementBytes == 1 ? *calibration.fp8TFlops
                                                 : *calibration.bf16TFlops;
    least = std::max(least, 2e-3 * static_cast<double>(matmul->rows) *
                                static_cast<double>(matmul->columns) *
                                static_cast<double>(matmul->contraction) /
                                teraFlops);
  }
  return static_cast<int64_t>(least);
}

static KernelDecision decide(func::FuncOp func, Operation *op,
                             const TargetInfo &target) {
  KernelDecision decision;
  decision.program = func.getSymName();
  decision.op = op->getName().getStringRef();
  decision.line = getLine(op->getLoc());
  decision.reads = describeLayouts(op->getOperands());
  decision.writes = describeLayouts(op->getResults());
  decision.padded = findPaddedInputs(func, op);
  if (!target.isGPU()) {
    decision.reason = "reference path: results are exact, time is not tuned";
    return decision;
  }
  std::optional<Cost> cost;
  if (const KernelProblem *problem = findKernelProblem(op)) {
    auto tiled = dyn_cast<TiledOpInterface>(op);
    KernelChoiceAttr choice = tiled ? tiled.getTilesAttr() : KernelChoiceAttr();
    if (choice)
      describeTiles(choice, "", decision.tiles);
    if (TileAttrInterface tile = choice ? getOnlyTile(choice) : nullptr) {
      decision.tileFields.push_back({"kind", getTileKind(tile)});
      llvm::append_range(decision.tileFields, tile.getFields());
    }
    cost = problem->predictChoice(op, target);
    decision.reason = problem->explainChoice(op, target);
  }
  if (!cost)
    cost = estimateKernel(op, {}, target);
  decision.predictedTime = cost->time / 1000;
  std::optional<MatmulWork> matmul;
  if (auto matmulOp = dyn_cast<MatmulOpInterface>(op))
    matmul = withNominalSizes(getMatmulWork(matmulOp));
  int64_t tokens = matmul ? matmul->getTokens() : kNominalTokens;
  if (hasUnknownSizes(op))
    decision.tokens = tokens;
  decision.leastTime = getLeastTime(op, tokens, matmul, target);
  if (decision.reason.empty())
    decision.reason = "no choice: one schedule for these layouts";
  return decision;
}

std::vector<KernelDecision> fp8moe::collectDecisions(ModuleOp module,
                                                     const TargetInfo &target) {
  std::vector<KernelDecision> decisions;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func.isPublic() || func.isExternal())
      continue;
    func.walk([&](Operation *op) {
      bool isCopy = isa<ContiguousOp, RelayoutOp>(op) && !isNoopRelayout(op);
      if (isa<KernelOpInterface>(op) || isCopy)
        decisions.push_back(decide(func, op, target));
    });
  }
  return decisions;
}

llvm::json::Array
fp8moe::serializeDecisions(ArrayRef<KernelDecision> decisions) {
  llvm::json::Array array;
  for (const KernelDecision &decision : decisions) {
    // For people: names that are not UTF-8 are refused with their programs.
    llvm::json::Object object{
        {"program", llvm::json::fixUTF8(decision.program)},
        {"op", decision.op},
        {"reads", llvm::json::Array(decision.reads)},
        {"writes", llvm::json::Array(decision.writes)},
        {"reason", decision.reason}};
    if (decision.line)
      object["line"] = *decision.line;
    llvm::json::Object tile;
    for (const TileField &field : decision.tileFields)
      std::visit([&](auto value) { tile[field.name] = value; }, field.value);
    if (!tile.empty())
      object["tile"] = std::move(tile);
    llvm::json::Array padded;
    for (const PaddedInput &input : decision.padded)
      padded.push_back(llvm::json::Object{
          {"input", llvm::json::fixUTF8(input.tensor)},
          {"ends", llvm::json::fixUTF8(input.ends)},
          {"dim", input.dim},
          {"pad", input.pad},
          {"rows", input.rows ? llvm::json::Value(*input.rows)
                              : llvm::json::Value(nullptr)}});
    if (!padded.empty())
      object["padded"] = std::move(padded);
    if (decision.predictedTime)
      object["predicted_ns"] = *decision.predictedTime;
    if (decision.leastTime)
      object["least_ns"] = *decision.leastTime;
    array.push_back(std::move(object));
  }
  return array;
}
