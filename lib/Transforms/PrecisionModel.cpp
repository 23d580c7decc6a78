//===- PrecisionModel.cpp - Predicted times in bf16 and FP8 ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
//   time of a function    sum over matmuls: the kernel of the chosen precision
//                         + sum over preparations that some choice needs
//   preparation           FP8: a quantization of a tensor along an axis;
//                         bf16: a copy, if the kernel cannot read the layout
//   two quantizations     of one tensor along both axes: the cheaper of one
//                         kernel for both and one kernel for each
//
// lib/Kernels predicts kernels, copies and quantizations, with the models that
// also choose tiles and layouts.
//
//===----------------------------------------------------------------------===//

#include "PrecisionModel.h"

#include "Steps.h"

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Model/MemoryCost.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Upper bound of a matmul's time in picoseconds, some minutes, so that the sum
/// over a function does not overflow.
static constexpr int64_t kMostTime = int64_t(1) << 48;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Returns the work of the bf16 matmul, with nominal values for unknown sizes.
static MatmulWork getNominalWork(MatmulOpInterface op, int64_t tokens) {
  MatmulWork work = getMatmulWork(op);
  if (tokens && ShapedType::isDynamic(work.getTokens()))
    work.getTokens() = tokens;
  return withNominalSizes(work);
}

static MatmulWork inFP8(MatmulWork work, MatmulOpInterface op,
                        PrecisionRecipe recipe) {
  work.a = work.b = MatrixElement::E4M3;
  work.elementBytes = 1;
  // Quantize kernels write along the contraction, row behind row.
  work.mnMajorA = work.mnMajorB = false;
  work.pitchA = work.pitchB = ShapedType::kDynamic;
  work.hasBlockScales = recipe == PrecisionRecipe::MXFP8;
  work.promoted =
      op.getAccumulation() == Accumulation::Promoted && !work.hasBlockScales;
  return work;
}

/// Returns the shape of an operand's root, with the sizes of `work`.
static SmallVector<int64_t> getRootShape(MatmulOpInterface op,
                                         const MatmulWork &work, bool isFirst,
                                         const MatmulOperand &source) {
  SmallVector<int64_t> shape;
  if (isFirst)
    shape = {work.rows, work.contraction};
  else if (op.getB().getType().getRank() == 3)
    shape = {work.groups, work.contraction, work.columns};
  else
    shape = {work.contraction, work.columns};
  return permute(shape, invertPermutation(source.view.permutation));
}

//===----------------------------------------------------------------------===//
// Predictions
//===----------------------------------------------------------------------===//

Cost PrecisionModel::predictExpanded(MatmulWork work,
                                     MLIRContext *context) const {
  double matrices = work.isMGrouped() ? work.groups : 1;
  double elements = static_cast<double>(work.contraction) *
                    (work.rows + matrices * work.columns);
  work.hasBlockScales = false;
  work.a = work.b = MatrixElement::BF16;
  work.elementBytes = 2;
  // Operands are read in FP8 and written in bf16.
  Cost cost = estimateBytes(
      static_cast<int64_t>(std::min<double>(3 * elements, kMostTime)), target);
  return cost += predictMatmul(work, context);
}

Cost PrecisionModel::predictMatmul(const MatmulWork &work,
                                   MLIRContext *context) const {
  if (work.hasBlockScales && expandsMXMatmuls(target))
    return predictExpanded(work, context);
  SmallVector<KernelCandidate> candidates = rankTiles(context, work, target);
  if (candidates.empty())
    return Cost::infinite();
  Cost cost = chooseCandidate(candidates).cost;
  cost.time = std::min(cost.time, kMostTime);
  return cost;
}

/// Returns the dense type of a root in its current order, with known sizes.
static RankedTensorType getNominalType(const MatmulOperand &operand,
                                       ArrayRef<int64_t> shape) {
  RankedTensorType type = operand.getRootType();
  return StridedLayout::getDense(shape, StridedLayout::get(type)->order)
      .getType(shape, type.getElementType());
}

/// Returns the cost of one operation that quantizes a tensor along several
/// axes. The first axis is per group if its operand has groups.
static Cost predictQuantization(ArrayRef<const MatmulOperand *> operands,
                                ArrayRef<int64_t> shape,
                                const TargetInfo &target) {
  const MatmulOperand &first = *operands.front();
  MLIRContext *context = first.getRootType().getContext();
  Location loc = UnknownLoc::get(context);
  // A block of its own: nothing of it reaches the program.
  Block scratch;
  Value input = scratch.addArgument(getNominalType(first, shape), loc);
  Value offsets;
  if (first.offsets)
    offsets = scratch.addArgument(first.offsets.getType(), loc);
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&scratch);
  Operation *op =
      createQuantization(builder, loc, operands, input, offsets, target.fp8);
  if (first.hasBlocks())
    return estimateKernel(op, {}, target);
  return estimateQuantize(op, {}, target).value_or(Cost::infinite());
}

/// Whether the bf16 kernel needs a copy of an operand, as another dimension
/// must be contiguous.
static bool needsCopy(MatmulOpInterface op, Value tensor,
                      const MatmulOperand &operand, const TargetInfo &target) {
  auto kernel = cast<KernelOpInterface>(op.getOperation());
  StridedLayout layout = *StridedLayout::get(operand.getRootType());
  TensorAccess access = getKernelAccess(kernel, tensor, target);
  int64_t innermost =
      invertPermutation(operand.view.permutation)[layout.order.back()];
  return !access.contiguousDims.empty() &&
         !llvm::is_contained(access.contiguousDims, innermost);
}

/// Returns the cost of a copy that makes the contracted dimension contiguous.
static Cost predictCopy(const MatmulOperand &operand, ArrayRef<int64_t> shape,
                        const TargetInfo &target) {
  RankedTensorType type = getNominalType(operand, shape);
  StridedLayout from = *StridedLayout::get(type);
  SmallVector<int64_t> order(from.order);
  llvm::erase(order, operand.axis);
  order.push_back(operand.axis);
  return estimateCopy(type, from, StridedLayout::getDense(shape, order),
                      target);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Returns the index of the preparation of an operand, and counts a user. The
/// cost is predicted for its first user only.
unsigned PrecisionModel::prepare(bool isFP8, MatmulOpInterface op,
                                 const MatmulOperand &operand,
                                 ArrayRef<int64_t> rootShape,
                                 function_ref<Cost()> predict) {
  Block *block = op->getBlock();
  auto [it, isNew] =
      numbers.try_emplace({isFP8, operand.getKey(block)}, preparations.size());
  unsigned number = it->second;
  if (isNew) {
    preparations.push_back(
        {operand, SmallVector<int64_t>(rootShape), predict()});
    if (isFP8)
      quantizations[{block, operand.view.root}].push_back(number);
  }
  ++preparations[number].users;
  return number;
}

void PrecisionModel::addOperand(Use &use, MatmulOpInterface op,
                                PrecisionRecipe recipe, const MatmulWork &work,
                                bool isFirst) {
  MatmulOperand operand = getMatmulOperand(op, isFirst, recipe);
  SmallVector<int64_t> shape = getRootShape(op, work, isFirst, operand);
  use.quantizations.push_back(prepare(/*isFP8=*/true, op, operand, shape, [&] {
    return predictQuantization(&operand, shape, target);
  }));
  if (needsCopy(op, isFirst ? op.getA() : op.getB(), operand, target))
    use.copies.push_back(prepare(/*isFP8=*/false, op, operand, shape, [&] {
      return predictCopy(operand, shape, target);
    }));
}

void PrecisionModel::add(MatmulOpInterface op, PrecisionRecipe recipe) {
  MatmulWork work = getNominalWork(op, tokens);
  Use &use = uses[op];
  use.bf16 = predictMatmul(work, op.getContext());
  use.fp8 = predictMatmul(inFP8(work, op, recipe), op.getContext());
  addOperand(use, op, recipe, work, /*isFirst=*/true);
  addOperand(use, op, recipe, work, /*isFirst=*/false);
}

void PrecisionModel::fix(MatmulOpInterface op, PrecisionChoice choice) {
  uses.find(op)->second.fixed = choice;
}

//===----------------------------------------------------------------------===//
// The least sum
//===----------------------------------------------------------------------===//

SmallVector<PrecisionModel::Pair> PrecisionModel::findPairs() const {
  SmallVector<Pair> pairs;
  auto visit = [&](unsigned first, unsigned second) {
    const Preparation &a = preparations[first], &b = preparations[second];
    // Only the first axis of an operation may be jagged, and of blocks both or
    // none.
    if (a.operand.recipe != b.operand.recipe ||
        a.operand.axis == b.operand.axis || b.operand.offsets ||
        (a.operand.hasBlocks() && a.operand.offsets))
      return;
    Cost apart = a.cost + b.cost;
    Cost together =
        predictQuantization({&a.operand, &b.operand}, a.shape, target);
    if (apart.isPossible() && together.isPossible() && together < apart)
      pairs.push_back({first, second, apart, together});
  };
  for (auto &[tensor, group] : quantizations)
    for (auto [index, number] : llvm::enumerate(group))
      for (unsigned other : ArrayRef(group).drop_front(index + 1)) {
        bool isOtherJagged =
            static_cast<bool>(preparations[other].operand.offsets);
        visit(isOtherJagged ? other : number, isOtherJagged ? number : other);
      }
  return pairs;
}

void PrecisionModel::solve() {
  MinSumProblem problem;
  SmallVector<MinSumProblem::Variable> made;
  for (const Preparation &preparation : preparations) {
    made.push_back(problem.addVariable(2));
    problem.addCost(made.back(), 1, preparation.cost);
  }
  SmallVector<Pair> pairs = findPairs();
  for (const Pair &pair : pairs) {
    // Less than nothing: what both together save.
    std::vector<Cost> costs(4);
    costs[3] = pair.together - pair.apart;
    problem.addFactor({made[pair.first], made[pair.second]}, costs);
  }
  SmallVector<MinSumProblem::Variable> isFP8;
  for (auto &[op, use] : uses) {
    MinSumProblem::Variable variable = problem.addVariable(2);
    isFP8.push_back(variable);
    problem.addCost(variable, 0, use.bf16);
    Cost fp8 = use.fp8;
    fp8.time += static_cast<int64_t>(kLeastGain * use.bf16.time);
    problem.addCost(variable, 1, fp8);
    if (use.fixed)
      problem.addCost(variable, *use.fixed == PrecisionChoice::FP8 ? 0 : 1,
                      Cost::infinite());
    for (unsigned value : {0, 1})
      for (unsigned number : use.getPreparations(value)) {
        std::vector<Cost> costs(4);
        costs[value * 2] = Cost::infinite();
        problem.addFactor({variable, made[number]}, costs);
      }
  }
  MinSumProblem::Solution solution = problem.solve();
  for (auto [entry, variable] : llvm::zip_equal(uses, isFP8)) {
    Use &use = entry.second;
    bool value = solution.values[variable];
    use.choice = use.fixed.value_or(value ? PrecisionChoice::FP8
                                          : PrecisionChoice::BF16);
    for (unsigned number :
         use.getPreparations(use.choice == PrecisionChoice::FP8))
      ++preparations[number].actualUsers;
  }
  for (const Pair &pair : pairs) {
    double part = static_cast<double>(pair.together.time) /
                  static_cast<double>(pair.apart.time);
    Preparation &a = preparations[pair.first], &b = preparations[pair.second];
    // Both are made, or none is and this is what FP8 would take.
    if ((a.actualUsers == 0) == (b.actualUsers == 0))
      a.part = b.part = part;
  }
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

/// Returns the picoseconds of a matmul and its share of preparations. A
/// preparation is shared by its users in the chosen precision, or, if that
/// precision is not chosen, by all possible users.
int64_t PrecisionModel::getTime(const Use &use, bool isFP8) const {
  const Cost &kernel = isFP8 ? use.fp8 : use.bf16;
  if (!kernel.isPossible())
    return 0;
  bool isChosen = isFP8 == (use.choice == PrecisionChoice::FP8);
  double time = kernel.time;
  for (unsigned number : use.getPreparations(isFP8)) {
    const Preparation &preparation = preparations[number];
    time += preparation.cost.time * preparation.part /
            (isChosen ? preparation.actualUsers : preparation.users);
  }
  return static_cast<int64_t>(time);
}

PrecisionModel::Answer PrecisionModel::getAnswer(MatmulOpInterface op) const {
  const Use &use = uses.find(op)->second;
  return {use.choice, getTime(use, false) / 1000, getTime(use, true) / 1000,
          use.fp8.isPossible()};
}
