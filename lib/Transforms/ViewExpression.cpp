//===- ViewExpression.cpp - Compositions of views as arithmetic -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ViewExpression.h"

using namespace mlir;
using namespace mlir::fp8moe;

ViewStep fp8moe::getViewStep(Operation *view) {
  auto type = cast<RankedTensorType>(view->getResult(0).getType());
  ViewStep step{{}, SmallVector<int64_t>(type.getShape())};
  if (auto transpose = dyn_cast<TransposeOp>(view))
    step.permutation.assign(transpose.getPermutation().begin(),
                            transpose.getPermutation().end());
  return step;
}

ViewExpression::ViewExpression(ArrayRef<int64_t> rootShape)
    : rootShape(rootShape), shape(rootShape), sizes(rootShape) {
  for (unsigned dim = 0; dim < rootShape.size(); ++dim) {
    rootDims.push_back({dim});
    dims.push_back({dim});
  }
}

//===----------------------------------------------------------------------===//
// Composition
//===----------------------------------------------------------------------===//

/// Splits `factor`: it keeps the outer part, and the new inner factor is
/// returned.
unsigned ViewExpression::splitFactor(unsigned factor, int64_t outer,
                                     int64_t inner) {
  unsigned created = sizes.size();
  sizes[factor] = outer;
  sizes.push_back(inner);
  for (FactorList &list : rootDims) {
    auto *place = llvm::find(list, factor);
    if (place == list.end())
      continue;
    list.insert(std::next(place), created);
    break;
  }
  return created;
}

/// Removes factors with `size` elements from the inner or outer end of `list`.
/// Returns false if factors cannot be split so.
bool ViewExpression::take(FactorList &list, int64_t size, bool isInner,
                          FactorList &taken) {
  auto add = [&](unsigned factor) {
    taken.insert(isInner ? taken.begin() : taken.end(), factor);
  };
  while (size > 1) {
    if (list.empty())
      return false;
    auto *end = isInner ? std::prev(list.end()) : list.begin();
    unsigned factor = *end;
    int64_t available = sizes[factor];
    bool isDynamic = ShapedType::isDynamic(available);
    if (!isDynamic && size % available == 0) {
      list.erase(end);
      add(factor);
      size /= available;
      continue;
    }
    // The known parts of a split divide the whole; what is left of them divides
    // an unknown factor only when that is all that is left.
    if (isDynamic ? list.size() > 1 : available % size != 0)
      return false;
    int64_t rest = isDynamic ? available : available / size;
    if (isInner) {
      add(splitFactor(factor, rest, size));
    } else {
      *end = splitFactor(factor, size, rest);
      add(factor);
    }
    return true;
  }
  return true;
}

/// Splits a dimension with the factors `list` into `parts`. Known parts are
/// taken from both ends, and the unknown part gets the remaining factors.
bool ViewExpression::splitDim(FactorList list, ArrayRef<int64_t> parts,
                              SmallVectorImpl<FactorList> &result) {
  result.assign(parts.size(), {});
  int64_t inner = parts.size();
  while (inner > 0 && !ShapedType::isDynamic(parts[inner - 1])) {
    --inner;
    if (!take(list, parts[inner], /*isInner=*/true, result[inner]))
      return false;
  }
  for (int64_t outer = 0; outer + 1 < inner; ++outer)
    if (!take(list, parts[outer], /*isInner=*/false, result[outer]))
      return false;
  // Without an unknown part only factors of size 1 are left.
  FactorList &rest = result[inner > 0 ? inner - 1 : 0];
  rest.insert(rest.begin(), list.begin(), list.end());
  return true;
}

bool ViewExpression::reshape(ArrayRef<int64_t> resultShape) {
  if (llvm::is_contained(shape, 0) || llvm::is_contained(resultShape, 0))
    return false;
  std::optional<SmallVector<ReshapeRun>> runs =
      matchReshape(shape, resultShape);
  if (!runs)
    return false;
  SmallVector<FactorList, 4> before = std::move(dims);
  dims.assign(resultShape.size(), {});
  for (const ReshapeRun &run : *runs) {
    FactorList merged;
    for (int64_t dim = run.inputBegin; dim < run.inputEnd; ++dim)
      llvm::append_range(merged, before[dim]);
    SmallVector<FactorList> parts;
    if (!splitDim(
            std::move(merged),
            resultShape.slice(run.resultBegin, run.resultEnd - run.resultBegin),
            parts))
      return false;
    llvm::copy(parts, dims.begin() + run.resultBegin);
  }
  shape.assign(resultShape.begin(), resultShape.end());
  simplify();
  return true;
}

bool ViewExpression::apply(const ViewStep &step) {
  if (!step.isTranspose())
    return reshape(step.shape);
  shape = permute(shape, step.permutation);
  dims = llvm::map_to_vector<4>(step.permutation,
                                [&](int64_t dim) { return dims[dim]; });
  return true;
}

void ViewExpression::simplify() {
  // Where each factor is in the view.
  SmallVector<std::pair<unsigned, unsigned>> places(sizes.size());
  for (auto [dim, list] : llvm::enumerate(dims))
    for (auto [i, factor] : llvm::enumerate(list))
      places[factor] = {dim, i};
  SmallVector<unsigned> number(sizes.size());
  SmallVector<bool> isJoined(sizes.size(), false);
  SmallVector<int64_t, 4> newSizes;
  for (FactorList &list : rootDims) {
    FactorList kept;
    for (auto [i, factor] : llvm::enumerate(list)) {
      if (i > 0) {
        auto [dim, place] = places[list[i - 1]];
        isJoined[factor] = places[factor] == std::pair(dim, place + 1);
      }
      if (isJoined[factor]) {
        newSizes.back() = multiplySizes(newSizes.back(), sizes[factor]);
      } else {
        kept.push_back(newSizes.size());
        newSizes.push_back(sizes[factor]);
      }
      number[factor] = newSizes.size() - 1;
    }
    list = std::move(kept);
  }
  for (FactorList &list : dims) {
    llvm::erase_if(list, [&](unsigned factor) { return isJoined[factor]; });
    for (unsigned &factor : list)
      factor = number[factor];
  }
  sizes = std::move(newSizes);
}

SmallVector<int64_t> ViewExpression::getSplit(int64_t rootDim) const {
  return llvm::map_to_vector(rootDims[rootDim],
                             [&](unsigned factor) { return sizes[factor]; });
}

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

std::optional<StridedLayout> fp8moe::applyView(const ViewStep &step,
                                               ArrayRef<int64_t> shape,
                                               const StridedLayout &layout) {
  if (step.isTranspose())
    return transposeLayout(layout, step.permutation);
  if (isAmbiguousReshape(shape, step.shape))
    return std::nullopt;
  return reshapeLayout(layout, shape, step.shape);
}

/// Returns the chain of a reshape, a transpose and a reshape, without those
/// that change nothing. `split` is the shape after the first reshape.
static SmallVector<ViewStep> makeChain(ArrayRef<int64_t> rootShape,
                                       ArrayRef<int64_t> split,
                                       ArrayRef<int64_t> permutation,
                                       ArrayRef<int64_t> result) {
  SmallVector<ViewStep> chain;
  if (split != rootShape)
    chain.push_back({{}, SmallVector<int64_t>(split)});
  SmallVector<int64_t> moved(split);
  if (!llvm::is_sorted(permutation)) {
    moved = permute(split, permutation);
    chain.push_back({SmallVector<int64_t>(permutation), moved});
  }
  if (ArrayRef<int64_t>(moved) != result)
    chain.push_back({{}, SmallVector<int64_t>(result)});
  return chain;
}

/// Returns chains that may give this view: one that moves every factor by
/// itself, and one that moves factors together that stay adjacent.
SmallVector<SmallVector<ViewStep>> ViewExpression::getCandidates() const {
  SmallVector<int64_t> order;
  for (const FactorList &list : dims)
    llvm::append_range(order, list);
  // One reshape only splits or only merges a dimension.
  if (llvm::is_sorted(order))
    return {makeChain(rootShape, rootShape, {}, shape),
            makeChain(rootShape, sizes, {}, shape)};

  // The block of each factor, in the order of the root.
  SmallVector<int64_t> blockOf(sizes.size()), blockSizes;
  SmallVector<int64_t> position = invertPermutation(order);
  for (unsigned factor = 0; factor < sizes.size(); ++factor) {
    if (factor > 0 && position[factor] == position[factor - 1] + 1)
      blockSizes.back() = multiplySizes(blockSizes.back(), sizes[factor]);
    else
      blockSizes.push_back(sizes[factor]);
    blockOf[factor] = blockSizes.size() - 1;
  }
  SmallVector<int64_t> blockOrder;
  for (int64_t factor : order)
    if (blockOrder.empty() || blockOrder.back() != blockOf[factor])
      blockOrder.push_back(blockOf[factor]);
  return {makeChain(rootShape, sizes, order, shape),
          makeChain(rootShape, blockSizes, blockOrder, shape)};
}

std::optional<SmallVector<ViewStep>>
ViewExpression::getShortestChain(const StridedLayout &layout,
                                 StridedLayout &seen) const {
  std::optional<SmallVector<ViewStep>> best;
  for (SmallVector<ViewStep> &chain : getCandidates()) {
    if (best && chain.size() >= best->size())
      continue;
    // Whatever unknown sizes and sizes of 1 may mean on the way, the chain
    // must be this view.
    ViewExpression replay(rootShape);
    std::optional<StridedLayout> current = layout;
    for (const ViewStep &step : chain) {
      current = applyView(step, replay.shape, *current);
      if (!current || !replay.apply(step)) {
        current.reset();
        break;
      }
    }
    if (!current || !(replay == *this))
      continue;
    seen = *current;
    best = std::move(chain);
  }
  return best;
}

Value fp8moe::createChain(OpBuilder &builder, Location loc, Value root,
                          ArrayRef<ViewStep> chain, RankedTensorType last) {
  Value value = root;
  for (const ViewStep &step : chain) {
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType result = &step == &chain.back() ? last : nullptr;
    if (!result) {
      StridedLayout layout =
          *applyView(step, type.getShape(), *StridedLayout::get(type));
      result = layout.getType(step.shape, type.getElementType());
    }
    if (step.isTranspose())
      value =
          TransposeOp::create(builder, loc, result, value, step.permutation);
    else
      value = ReshapeOp::create(builder, loc, result, value);
  }
  return value;
}
