//===- SelectPrecision.cpp - Which matmuls are worth FP8 ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
//   1. What no policy decides: filtered names and sizes that FP8 hardware does
//      not take stay bf16; decisions that are there stay.
//   2. The policy. `cost` asks PrecisionModel, function by function, which sees
//      what is decided, too; the others look at each matmul by itself. Under
//      those the model still says the times, for the report.
//
//===----------------------------------------------------------------------===//

#include "PrecisionModel.h"
#include "PrecisionPolicy.h"

#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SELECTPRECISION
#include "fp8moe/Dialect/FP8MoE/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;
using llvm::formatv;

namespace {
enum class Policy { Cost, Torchao, All, None };

/// A decision that is not in the IR yet.
struct Decision {
  PrecisionChoice choice;
  std::string reason;
};

struct SelectPrecision
    : public fp8moe::impl::SelectPrecisionBase<SelectPrecision> {
  using SelectPrecisionBase::SelectPrecisionBase;
  void runOnOperation() override;

private:
  LogicalResult readOptions();
  LogicalResult selectIn(FunctionOpInterface function);
  FailureOr<std::optional<Decision>> decideByRule(MatmulOpInterface op);
  std::optional<StringRef> findFilter(StringRef name);
  void write(MatmulOpInterface op, const Decision &decision,
             const PrecisionModel::Answer &answer);

  const TargetInfo *target = nullptr;
  Policy thePolicy = Policy::Cost;
  PrecisionRecipe theRecipe = PrecisionRecipe::Rowwise;
  /// Filters that are in some name.
  llvm::StringSet<> usedFilters;
};
} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

LogicalResult SelectPrecision::readOptions() {
  ModuleOp module = getOperation();
  std::optional<Policy> foundPolicy =
      llvm::StringSwitch<std::optional<Policy>>(policy)
          .Case("cost", Policy::Cost)
          .Case("torchao", Policy::Torchao)
          .Case("all", Policy::All)
          .Case("none", Policy::None)
          .Default(std::nullopt);
  if (!foundPolicy)
    return module.emitError("unknown precision policy '")
           << policy << "'; the policies are cost, torchao, all and none";
  std::optional<PrecisionRecipe> foundRecipe = symbolizePrecisionRecipe(recipe);
  if (!foundRecipe)
    return module.emitError("unknown precision recipe '")
           << recipe << "'; the recipes are rowwise, tensorwise and mxfp8";
  thePolicy = *foundPolicy;
  theRecipe = *foundRecipe;
  if (thePolicy == Policy::Torchao && theRecipe == PrecisionRecipe::MXFP8)
    return module.emitError("torchao has no rule for recipe 'mxfp8'; use "
                            "recipe rowwise or tensorwise, or policy cost, all "
                            "or none");
  if (thePolicy == Policy::Cost && theRecipe == PrecisionRecipe::Tensorwise)
    return module.emitError("policy 'cost' predicts no times for recipe "
                            "'tensorwise', which has no kernels; use recipe "
                            "rowwise, or policy torchao, all or none");
  if (llvm::is_contained(filterFqns, ""))
    return module.emitError("expects filters that have text, found an empty "
                            "one, which is in every name; remove it, or use "
                            "policy none");
  if (tokens < 0)
    return module.emitError("expects at least 0 tokens, found ")
           << tokens.getValue();
  if (chip.empty()) {
    FailureOr<TargetAttr> attr = requireTargetAttr(module);
    if (failed(attr))
      return failure();
    target = &attr->getInfo();
    return success();
  }
  target = lookupTarget(chip);
  if (!target)
    return module.emitError("cannot decide for unknown target '")
           << chip << "'; known targets are " << listKnownTargets();
  return success();
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// As torchao's filter_fqns: a part of the name is enough.
std::optional<StringRef> SelectPrecision::findFilter(StringRef name) {
  std::optional<StringRef> found;
  for (const std::string &filter : filterFqns)
    if (name.contains(filter)) {
      usedFilters.insert(filter);
      found = found.value_or(filter);
    }
  return found;
}

/// The decision about an undecided matmul, or none where predicted times make
/// it.
FailureOr<std::optional<Decision>>
SelectPrecision::decideByRule(MatmulOpInterface op) {
  auto stay = [](const Twine &reason) {
    return std::optional(Decision{PrecisionChoice::BF16, reason.str()});
  };
  if (auto filter = findFilter(op.getPrecisionAttr().getName()))
    return stay("filtered by '" + *filter + "'");
  if (thePolicy == Policy::None)
    return stay("policy none");
  if (getGroupPadding(op.getA().getType()))
    return stay("its operands have padded groups");
  WeightShape weights = WeightShape::get(op);
  if (std::optional<std::string> reason = explainUnaligned(weights))
    return stay(*reason);
  if (theRecipe == PrecisionRecipe::MXFP8)
    return stay("recipe mxfp8 is not applied yet");
  switch (thePolicy) {
  case Policy::Torchao: {
    if (ShapedType::isDynamic(weights.n) || ShapedType::isDynamic(weights.k))
      return op.emitOpError("has weights of a size that is not known, but "
                            "policy 'torchao' compares N and K; give it "
                            "known sizes, or use policy 'cost'");
    if (std::optional<std::string> reason = explainTorchao(weights, theRecipe))
      return stay(*reason);
    return std::optional(
        Decision{PrecisionChoice::FP8, "torchao: above its thresholds"});
  }
  case Policy::All:
    return std::optional(Decision{PrecisionChoice::FP8, "policy all"});
  case Policy::Cost:
    if (!target->isGPU())
      return stay("no times are predicted on " + target->chip);
    return std::optional<Decision>();
  case Policy::None:
    break;
  }
  llvm_unreachable("unknown policy");
}

/// What the predicted times say.
static std::string explain(const PrecisionModel::Answer &answer) {
  double ratio =
      static_cast<double>(answer.fp8Ns) / std::max<int64_t>(answer.bf16Ns, 1);
  if (answer.choice == PrecisionChoice::FP8) {
    if (ratio < 1)
      return formatv("FP8 is predicted to be {0:f2}x as fast", 1 / ratio);
    return "FP8 gains where its quantizations are shared";
  }
  if (!answer.canBeFP8)
    return "there is no FP8 kernel";
  if (ratio > 1 + PrecisionModel::kLeastGain)
    return formatv("FP8 is predicted to take {0:f2}x the time", ratio);
  return "FP8 is predicted to gain too little";
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void SelectPrecision::write(MatmulOpInterface op, const Decision &decision,
                            const PrecisionModel::Answer &answer) {
  PrecisionAttr old = op.getPrecisionAttr();
  op.setPrecisionAttr(PrecisionAttr::get(
      &getContext(), decision.choice, old.getName(), old.getUse(), theRecipe,
      answer.bf16Ns, answer.fp8Ns, decision.reason));
  ++(decision.choice == PrecisionChoice::FP8 ? numFP8 : numBF16);
}

LogicalResult SelectPrecision::selectIn(FunctionOpInterface function) {
  PrecisionModel model(*target, tokens);
  SmallVector<std::pair<MatmulOpInterface, std::optional<Decision>>> open;
  WalkResult walk = function->walk([&](MatmulOpInterface op) -> WalkResult {
    PrecisionAttr precision = op.getPrecisionAttr();
    if (!precision || isFp8Type(op.getA().getType().getElementType()))
      return WalkResult::advance();
    if (target->isGPU())
      model.add(op);
    if (precision.getChoice() != PrecisionChoice::Undecided) {
      findFilter(precision.getName());
      if (target->isGPU())
        model.fix(op, precision.getChoice());
      return WalkResult::advance();
    }
    FailureOr<std::optional<Decision>> decision = decideByRule(op);
    if (failed(decision))
      return WalkResult::interrupt();
    if (*decision && target->isGPU())
      model.fix(op, (*decision)->choice);
    open.emplace_back(op, *decision);
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  if (open.empty())
    return success();
  if (target->isGPU())
    model.solve();
  for (auto &[op, decision] : open) {
    PrecisionModel::Answer answer{};
    if (target->isGPU())
      answer = model.getAnswer(op);
    write(op, decision.value_or(Decision{answer.choice, explain(answer)}),
          answer);
  }
  return success();
}

void SelectPrecision::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(readOptions()))
    return signalPassFailure();
  bool hasMatmuls = false;
  module.walk([&](MatmulOpInterface op) {
    hasMatmuls |= static_cast<bool>(op.getPrecisionAttr());
  });
  if (!hasMatmuls) {
    if (warnIfEmpty)
      module.emitWarning("no matmul has a 'precision' to decide; name them "
                         "with 'precision <undecided, \"NAME\", forward>'");
    return markAllAnalysesPreserved();
  }
  if (theRecipe == PrecisionRecipe::MXFP8 && thePolicy != Policy::None)
    module.emitWarning("recipe 'mxfp8' leaves every matmul in bf16: ")
        << "it is not applied yet; use recipe rowwise, or write mx_quantize "
           "and "
           "scales of blocks";
  usedFilters.clear();
  WalkResult walk = module.walk([&](FunctionOpInterface function) {
    return WalkResult(failure(failed(selectIn(function))));
  });
  if (walk.wasInterrupted())
    return signalPassFailure();
  for (const std::string &filter : filterFqns)
    if (!usedFilters.contains(filter))
      module.emitWarning("filter '")
          << filter << "' is in no name of a matmul; check its spelling";
}
