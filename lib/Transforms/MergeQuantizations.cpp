//===- MergeQuantizations.cpp - Equal quantizations are one ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CSE that looks through copies, pairs of axes and layouts:
//
//   %q0, %s0 = dynamic_quantize %x along [1]
//   %c = contiguous %x
//   %q1, %s1 = dynamic_quantize %c along [1]
//
//   -->  %q0, %s0 = dynamic_quantize %x along [1]
//
// Every result is identified by the computation of its values. An operation is
// replaced if its block has computed all its results before, and if layout
// placement then predicts less time. Results in another layout become copies.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "PlacementProblem.h"
#include "Regroupings.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
/// The computation of a result's values: attributes, and values that it reads
/// (null if absent). Does not depend on layouts.
struct Computation {
  StringRef name;
  const void *input;
  SmallVector<int64_t> permutation;
  int64_t axis;
  SmallVector<const void *, 6> details;

  bool operator<(const Computation &other) const {
    auto rank = [](const Computation &c) {
      return std::tie(c.name, c.input, c.permutation, c.axis, c.details);
    };
    return rank(*this) < rank(other);
  }
};

/// The results of an operation with their computations. A result may have
/// several equivalent computations.
using NamedResults = SmallVector<std::pair<Computation, OpResult>, 6>;

/// A result, and an earlier one with the same values.
using KnownResult = std::pair<OpResult, Value>;
/// For every result of an operation that is read, the earlier value that
/// replaces it.
using Replacement = SmallVector<KnownResult, 4>;

/// Finds operations of one block that compute the same values as earlier ones.
class QuantizationMerger {
public:
  QuantizationMerger(FunctionOpInterface function, const TargetInfo &target,
                     bool explain)
      : trials(function, target, memo), explain(explain) {}

  /// Forgets all results, before the next block.
  void clear() {
    computed.clear();
    equalScales.clear();
  }

  /// Replaces `op` if its block has computed all its results before. Returns
  /// whether it did.
  bool merge(Operation *op);

private:
  Replacement find(Operation *op, const NamedResults &results,
                   Operation *preferred) const;
  SmallVector<Replacement, 2> findAll(Operation *op,
                                      const NamedResults &results) const;
  const Replacement *chooseFastest(ArrayRef<Replacement> replacements);

  PlacementMemo memo;
  PlacementTrials trials;
  bool explain;
  std::map<Computation, SmallVector<OpResult, 2>> computed;
  /// Maps scales to the first scales with the same values, so that casts by
  /// either are equal.
  DenseMap<const void *, const void *> equalScales;
};
} // namespace

static Computation getComputation(StringRef name, Value input, int64_t axis,
                                  ArrayRef<const void *> details) {
  PermutedView view = skipPermutations(input);
  return {name, view.root.getAsOpaquePointer(), view.permutation, axis,
          SmallVector<const void *, 6>(details)};
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static const void *toPointer(Value value) { return value.getAsOpaquePointer(); }
static const void *toPointer(Attribute attr) {
  return attr.getAsOpaquePointer();
}
static const void *toPointer(Type type) { return type.getAsOpaquePointer(); }
static const void *getElement(Value value) {
  return toPointer(tensorType(value).getElementType());
}

static void nameScales(Value input, Value offsets, int64_t axis,
                       Attribute rounding, const void *element, Value scales,
                       NamedResults &results) {
  results.emplace_back(
      getComputation("scale", input, axis,
                     {toPointer(offsets), toPointer(rounding), element}),
      cast<OpResult>(scales));
}

static void nameCast(StringRef name, Value input, Value offsets, int64_t axis,
                     Value scale, Attribute direction, Value data,
                     NamedResults &results) {
  results.emplace_back(getComputation(name, input, axis,
                                      {toPointer(offsets), toPointer(scale),
                                       toPointer(direction), getElement(data)}),
                       cast<OpResult>(data));
}

/// Adds the computations of a quantization along one axis, also as a scale
/// operation and a cast by its result.
static void nameQuantize(Value input, Value offsets, int64_t axis,
                         Attribute rounding, Value data, Value scales,
                         NamedResults &results) {
  const void *element = getElement(data);
  results.emplace_back(
      getComputation("dynamic_quantize", input, axis,
                     {toPointer(offsets), toPointer(rounding), element}),
      cast<OpResult>(data));
  nameScales(input, offsets, axis, rounding, element, scales, results);
  nameCast("quantize", input, offsets, axis, scales, Attribute(), data,
           results);
}

static void nameBlocks(MXQuantizeOp op, NamedResults &results) {
  for (auto [i, axis] : llvm::enumerate(op.getAxes())) {
    const void *details[] = {
        toPointer(op.getOffsets()), toPointer(op.getModeAttr()),
        toPointer(op.getSquareAttr()), getElement(op.getData(i))};
    results.emplace_back(
        getComputation("mx_quantize", op.getInput(), axis, details),
        cast<OpResult>(op.getData(i)));
    results.emplace_back(
        getComputation("mx_scales", op.getInput(), axis, details),
        cast<OpResult>(op.getBlockScales(i)));
  }
}

/// Returns the computations of the results of `op`. Returns nothing for other
/// operations, and for those with tiles, which were chosen for this operation.
static NamedResults nameResults(Operation *op) {
  NamedResults results;
  auto tiled = dyn_cast<TiledOpInterface>(op);
  if (tiled && tiled.getTilesAttr())
    return results;
  llvm::TypeSwitch<Operation *>(op)
      .Case<ScaleOp, JaggedScaleOp>([&](auto op) {
        nameScales(op.getInput(), op.getOffsets(), op.getAxis(),
                   op.getRoundingAttr(), toPointer(op.getFp8Type()),
                   op.getScale(), results);
      })
      .Case<QuantizeOp, DequantizeOp, MXDequantizeOp>([&](auto op) {
        nameCast(op->getName().stripDialect(), op.getInput(), op.getOffsets(),
                 op.getAxis(), op.getScale(), op->getAttr("direction"),
                 op.getResult(), results);
      })
      .Case<DynamicQuantizeOp, JaggedDynamicQuantizeOp>([&](auto op) {
        for (auto [i, axis] : llvm::enumerate(op.getAxes()))
          nameQuantize(op.getInput(), i == 0 ? op.getOffsets() : Value(), axis,
                       op.getRoundingAttr(), op.getQuantized()[i],
                       op.getScales()[i], results);
      })
      .Case([&](MXQuantizeOp op) { nameBlocks(op, results); });
  return results;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// Whether `known` has `type`, or a plain copy converts it to `type`.
static bool canCopy(Value known, RankedTensorType type) {
  RankedTensorType from = tensorType(known);
  return from == type || (from.getShape() == type.getShape() &&
                          getGroupPadding(from) == getGroupPadding(type));
}

/// Returns the best of `values` that has `type` or can be copied to it, or
/// null. Results of `preferred` come first, then values of this type.
static Value findBest(ArrayRef<OpResult> values, RankedTensorType type,
                      Operation *preferred) {
  Value best;
  auto rank = [&](Value value) {
    return value ? 2 * (value.getDefiningOp() == preferred) +
                       (value.getType() == type)
                 : -1;
  };
  for (OpResult value : values)
    if (canCopy(value, type) && rank(value) > rank(best))
      best = value;
  return best;
}

/// Finds earlier values for all results of `op` that are read. Returns an empty
/// list if one of them has none.
Replacement QuantizationMerger::find(Operation *op, const NamedResults &results,
                                     Operation *preferred) const {
  llvm::SmallMapVector<OpResult, Value, 4> known;
  for (auto &[name, result] : results)
    if (auto it = computed.find(name); it != computed.end())
      if (Value value = findBest(it->second, tensorType(result), preferred))
        known.insert({result, value});
  bool isKnown = llvm::all_of(op->getResults(), [&](OpResult result) {
    return result.use_empty() || known.contains(result);
  });
  return isKnown ? Replacement(known.begin(), known.end()) : Replacement();
}

/// Returns all possible replacements, as several operations may have computed a
/// result in different layouts. The first replacement prefers equal types from
/// any operation, the others prefer one operation each.
SmallVector<Replacement, 2>
QuantizationMerger::findAll(Operation *op, const NamedResults &results) const {
  llvm::SmallSetVector<Operation *, 4> owners;
  owners.insert(nullptr);
  for (auto &[name, result] : results)
    if (auto it = computed.find(name); it != computed.end())
      for (OpResult value : it->second)
        owners.insert(value.getOwner());
  SmallVector<Replacement, 2> found;
  for (Operation *owner : owners)
    if (Replacement known = find(op, results, owner);
        !known.empty() && !llvm::is_contained(found, known))
      found.push_back(std::move(known));
  return found;
}

/// Replaces the results of `op` by `known` values, with a copy if types differ,
/// and erases `op`.
static void replaceByKnown(Operation *op, ArrayRef<KnownResult> known) {
  OpBuilder builder(op);
  for (auto [result, value] : known) {
    if (result.use_empty())
      continue;
    if (value.getType() != result.getType())
      value = RelayoutOp::create(builder, op->getLoc(), result.getType(), value,
                                 /*offsets=*/Value());
    result.replaceAllUsesWith(value);
  }
  op->erase();
}

/// Returns the replacement with the least time after layout placement, or null
/// if none takes less time than `op`.
const Replacement *
QuantizationMerger::chooseFastest(ArrayRef<Replacement> replacements) {
  const Replacement *fastest = nullptr;
  std::optional<Cost> least;
  for (const Replacement &known : replacements) {
    // Equal operations are one where there are too many to try.
    if (trials.areOver()) {
      bool isEqual = llvm::all_of(known, [](const KnownResult &pair) {
        return pair.first.getType() == pair.second.getType();
      });
      return isEqual ? &known : fastest;
    }
    if (!least)
      least = trials.getCost();
    Cost cost = trials.tryChange([&](IRMapping &clone) {
      Replacement cloned;
      for (auto [result, value] : known)
        cloned.emplace_back(cast<OpResult>(clone.lookup(Value(result))),
                            clone.lookup(value));
      replaceByKnown(cloned.front().first.getOwner(), cloned);
    });
    if (cost < *least) {
      least = cost;
      fastest = &known;
    }
  }
  return fastest;
}

static bool areScales(const Computation &computation) {
  return computation.name == "scale" || computation.name == "mx_scales";
}

bool QuantizationMerger::merge(Operation *op) {
  NamedResults results = nameResults(op);
  for (auto &[name, result] : results)
    if (auto it = computed.find(name); it != computed.end() && areScales(name))
      equalScales[toPointer(result)] = toPointer(it->second.front());
  for (auto &[name, result] : results)
    for (const void *&detail : name.details)
      if (const void *first = equalScales.lookup(detail))
        detail = first;
  SmallVector<Replacement, 2> replacements = findAll(op, results);
  const Replacement *known = chooseFastest(replacements);
  if (!known) {
    if (!replacements.empty() && explain)
      remark::missed(op->getLoc(), layoutRemark("not-merged"))
          << "quantized again: a copy of what the same quantization wrote "
             "before, in another layout, would take longer";
    for (auto &[name, result] : results)
      computed[name].push_back(result);
    return false;
  }
  remark::passed(op->getLoc(), layoutRemark("merged"))
      << "not quantized again: the same values were computed before";
  // Another value may have the address of an erased one.
  for (Value result : op->getResults())
    equalScales.erase(toPointer(result));
  replaceByKnown(op, *known);
  return true;
}

unsigned fp8moe::mergeQuantizations(FunctionOpInterface function,
                                    const TargetInfo &target, bool explain) {
  unsigned merged = 0;
  QuantizationMerger merger(function, target, explain);
  function->walk([&](Block *block) {
    merger.clear();
    for (Operation &op : llvm::make_early_inc_range(*block))
      merged += merger.merge(&op);
  });
  return merged;
}
