//===- SelectPrecision.cpp - Which matmuls are worth FP8 ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
//   1. Matmuls with filtered names, or with sizes that FP8 hardware does not
//      support, stay in bf16. Decisions in the input stay.
//   2. The policy decides all others. `cost` uses PrecisionModel on one
//      function at a time, including its decided matmuls. The other policies
//      look at each matmul separately. The model then only predicts times for
//      the report.
//
//===----------------------------------------------------------------------===//

#include "PrecisionModel.h"

#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Target/Cards.h"
#include "fp8moe/Target/Suggestion.h"
#include "fp8moe/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_SELECTPRECISION
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;
using llvm::formatv;

namespace {
enum class Policy { Cost, Torchao, All, None };

/// A decision before it is written to the IR.
struct Decision {
  PrecisionChoice choice;
  std::string reason;
};

struct SelectPrecision
    : public fp8moe::impl::SelectPrecisionBase<SelectPrecision> {
  using SelectPrecisionBase::SelectPrecisionBase;
  void runOnOperation() override;

private:
  std::optional<std::string> explainConflict(PrecisionRecipe recipe) const;
  LogicalResult readOptions();
  LogicalResult selectIn(FunctionOpInterface function);
  PrecisionRecipe getRecipe(MatmulOpInterface op) const;
  FailureOr<std::optional<Decision>> decideByRule(MatmulOpInterface op);
  std::optional<StringRef> findFilter(StringRef name);
  void warnWithoutBlocks();
  void write(MatmulOpInterface op, const Decision &decision,
             const PrecisionModel::Answer &answer);

  const TargetInfo *target = nullptr;
  Policy thePolicy = Policy::Cost;
  PrecisionRecipe theRecipe = PrecisionRecipe::Rowwise;
  /// Filters that match the name of some matmul.
  llvm::StringSet<> usedFilters;
  /// Matmuls with recipe mxfp8 that stay in bf16, as no kernel of the target
  /// would be faster.
  SmallVector<MatmulOpInterface> withoutBlocks;
};
} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Returns why the policy does not support a recipe, with advice; std::nullopt
/// if it does.
std::optional<std::string>
SelectPrecision::explainConflict(PrecisionRecipe recipe) const {
  if (thePolicy == Policy::Torchao && recipe == PrecisionRecipe::MXFP8)
    return "torchao has no rule for recipe 'mxfp8'; use recipe rowwise or "
           "tensorwise, or policy cost, all or none";
  if (thePolicy == Policy::Cost && recipe == PrecisionRecipe::Tensorwise)
    return "policy 'cost' predicts no times for recipe 'tensorwise', which has "
           "no kernels; use recipe rowwise, or policy torchao, all or none";
  return std::nullopt;
}

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
    return module.emitError(
        describeUnknown("precision policy", policy.getValue(),
                        {"cost", "torchao", "all", "none"}));
  std::optional<PrecisionRecipe> foundRecipe = symbolizePrecisionRecipe(recipe);
  if (!foundRecipe)
    return module.emitError(
        describeUnknown("precision recipe", recipe.getValue(),
                        {"rowwise", "tensorwise", "mxfp8"}));
  thePolicy = *foundPolicy;
  theRecipe = *foundRecipe;
  if (std::optional<std::string> conflict = explainConflict(theRecipe))
    return module.emitError() << *conflict;
  if (llvm::is_contained(filterFqns, ""))
    return module.emitError("expects filters that have text, found an empty "
                            "one, which is in every name; remove it, or use "
                            "policy none");
  if (tokens < 0 || tokens > kMostModelledSize)
    return module.emitError("option tokens expects an integer from 0 to ")
           << kMostModelledSize << ", found " << tokens.getValue();
  if (chip.empty()) {
    FailureOr<TargetAttr> attr = requireTargetAttr(module);
    if (failed(attr))
      return failure();
    target = &attr->getInfo();
    return success();
  }
  target = lookupTarget(chip);
  if (const CardInfo *card = lookupCard(chip))
    target = &card->info;
  if (!target)
    return module.emitError("cannot decide for ")
           << describeUnknownTarget(chip) << "; known cards: "
           << llvm::join(llvm::map_range(
                             knownCards(),
                             [](const CardInfo &card) { return card.name; }),
                         ", ");
  return success();
}

//===----------------------------------------------------------------------===//
// Policies by the shape of weights
//===----------------------------------------------------------------------===//

/// FP8 needs N and K to be multiples of this, so that rows are multiples of 16
/// bytes.
static constexpr int64_t kMultiple = 16;

namespace {
/// The shape [N, K] of a module's weights (one expert's, if there are several).
/// All three matmuls of a module have the same. Unknown sizes are kDynamic.
struct WeightShape {
  int64_t n, k;

  static WeightShape get(MatmulOpInterface op);
};
} // namespace

WeightShape WeightShape::get(MatmulOpInterface op) {
  ArrayRef<int64_t> a = op.getA().getType().getShape();
  int64_t columns = op.getB().getType().getShape().back();
  switch (op.getPrecisionAttr().getUse()) {
  case MatmulUse::Forward: // [M, K] x [K, N]
    return {columns, a[1]};
  case MatmulUse::DGrad: // [M, N] x [N, K]
    return {a[1], columns};
  case MatmulUse::WGrad: // [N, M] x [M, K]
    return {a[0], columns};
  }
  llvm_unreachable("unknown use");
}

/// Returns why FP8 hardware does not support weights of this shape, if it does
/// not.
static std::optional<std::string> explainUnaligned(const WeightShape &weights) {
  auto explain = [](StringRef name, int64_t size) {
    return formatv("{0} = {1} is no multiple of {2}", name, size, kMultiple)
        .str();
  };
  if (!mayBeMultiple(weights.n, kMultiple))
    return explain("N", weights.n);
  if (!mayBeMultiple(weights.k, kMultiple))
    return explain("K", weights.k);
  return std::nullopt;
}

/// Returns why torchao's filter (`auto_filter_small_kn` of its
/// Float8LinearConfig, as of August 2026) leaves a module in bf16; std::nullopt
/// if it converts the module. Sizes must be known, and torchao must have a rule
/// for the recipe.
static std::optional<std::string> explainTorchao(const WeightShape &weights,
                                                 PrecisionRecipe recipe) {
  if (std::optional<std::string> reason = explainUnaligned(weights))
    return reason;
  auto [n, k] = weights;
  if (recipe == PrecisionRecipe::Tensorwise) {
    if (k <= 4096 && n <= 1024)
      return formatv("torchao: K = {0} <= 4096 and N = {1} <= 1024", k, n);
    return std::nullopt;
  }
  assert(recipe == PrecisionRecipe::Rowwise && "a recipe without a rule");
  if (n <= 2048)
    return formatv("torchao: N = {0} <= 2048", n);
  if (k <= 1024)
    return formatv("torchao: K = {0} <= 1024", k);
  if (n <= 4096 && k <= 2048)
    return formatv("torchao: N = {0} <= 4096 and K = {1} <= 2048", n, k);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Returns the first filter that is a substring of the name, like torchao's
/// filter_fqns.
std::optional<StringRef> SelectPrecision::findFilter(StringRef name) {
  std::optional<StringRef> found;
  for (const std::string &filter : filterFqns)
    if (name.contains(filter)) {
      usedFilters.insert(filter);
      found = found.value_or(filter);
    }
  return found;
}

/// Returns the recipe of a matmul: its own, or the default one if it is
/// undecided and names none.
PrecisionRecipe SelectPrecision::getRecipe(MatmulOpInterface op) const {
  PrecisionAttr precision = op.getPrecisionAttr();
  bool isOwn = precision.getChoice() != PrecisionChoice::Undecided ||
               precision.getRecipe() != PrecisionRecipe::Rowwise;
  return isOwn ? precision.getRecipe() : theRecipe;
}

/// Whether recipe mxfp8 may pay, as matrix instructions support block scales.
/// True on the CPU, where no times are compared.
static bool multipliesBlocks(const TargetInfo &target) {
  return !target.isGPU() || target.has(Feature::BlockScaledWaves);
}

/// Warns about the matmuls with recipe mxfp8 that stay in bf16, at the first
/// one.
void SelectPrecision::warnWithoutBlocks() {
  if (withoutBlocks.empty())
    return;
  MatmulOpInterface first = withoutBlocks.front();
  InFlightDiagnostic diag = first.emitWarning("'");
  diag << first->getName() << "' stays in bf16";
  if (size_t others = withoutBlocks.size() - 1)
    diag << ", as " << others << (others == 1 ? " other does" : " others do");
  diag << ": no kernel of target " << target->chip
       << " has matrix instructions that take scales of blocks";
  // A time is predicted where another kernel multiplies them.
  if (first.getPrecisionAttr().getFp8Ns())
    diag << ", and without them recipe 'mxfp8' is slower than bf16; use recipe "
            "'rowwise', or write 'fp8' where it shall be FP8 all the same";
  else
    diag << "; use recipe 'rowwise', or a target that has some";
  withoutBlocks.clear();
}

/// Returns the decision about an undecided matmul, or std::nullopt if predicted
/// times decide.
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
  PrecisionRecipe recipe = getRecipe(op);
  if (std::optional<std::string> conflict = explainConflict(recipe))
    return op.emitOpError("names a recipe, but ") << *conflict;
  if (recipe == PrecisionRecipe::MXFP8 && !multipliesBlocks(*target)) {
    withoutBlocks.push_back(op);
    return stay("recipe mxfp8: no kernel of " + target->chip +
                " has matrix instructions that take scales of blocks");
  }
  switch (thePolicy) {
  case Policy::Torchao: {
    if (ShapedType::isDynamic(weights.n) || ShapedType::isDynamic(weights.k))
      return op.emitOpError("has weights of a size that is not known, but "
                            "policy 'torchao' compares N and K; give it "
                            "known sizes, or use policy 'cost'");
    if (std::optional<std::string> reason = explainTorchao(weights, recipe))
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

/// Returns the reason for a decision by predicted times.
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
      &getContext(), decision.choice, old.getName(), old.getUse(),
      getRecipe(op), answer.bf16Ns, answer.fp8Ns, decision.reason));
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
      model.add(op, getRecipe(op));
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
  usedFilters.clear();
  withoutBlocks.clear();
  WalkResult walk = module.walk([&](FunctionOpInterface function) {
    return WalkResult(failure(failed(selectIn(function))));
  });
  if (walk.wasInterrupted())
    return signalPassFailure();
  warnWithoutBlocks();
  for (const std::string &filter : filterFqns)
    if (!usedFilters.contains(filter))
      module.emitWarning("filter '")
          << filter << "' is in no name of a matmul; check its spelling";
}
