//===- LayoutAlgebra.cpp - Arithmetic on layouts --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Permutations
//===----------------------------------------------------------------------===//

SmallVector<int64_t> fp8moe::identityPermutation(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

bool fp8moe::isPermutation(ArrayRef<int64_t> values) {
  llvm::SmallBitVector seen(values.size());
  for (int64_t value : values) {
    if (value < 0 || value >= static_cast<int64_t>(values.size()) ||
        seen.test(value))
      return false;
    seen.set(value);
  }
  return true;
}

SmallVector<int64_t> fp8moe::invertPermutation(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, dim] : llvm::enumerate(permutation))
    inverse[dim] = i;
  return inverse;
}

SmallVector<int64_t> fp8moe::composePermutations(ArrayRef<int64_t> first,
                                                 ArrayRef<int64_t> second) {
  return permute(first, second);
}

SmallVector<int64_t> fp8moe::permute(ArrayRef<int64_t> values,
                                     ArrayRef<int64_t> permutation) {
  return llvm::map_to_vector(permutation,
                             [&](int64_t dim) { return values[dim]; });
}

SmallVector<int64_t> fp8moe::permuteOrder(ArrayRef<int64_t> order,
                                          ArrayRef<int64_t> permutation) {
  // The order names dimensions, so names change and positions stay.
  return permute(invertPermutation(permutation), order);
}

SmallVector<int64_t> fp8moe::dropDim(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> result(shape);
  result.erase(result.begin() + dim);
  return result;
}

//===----------------------------------------------------------------------===//
// Sizes and strides
//===----------------------------------------------------------------------===//

std::optional<int64_t> fp8moe::getElementBytes(Type elementType) {
  if (isFp8Type(elementType))
    return 1;
  if (!elementType.isIntOrFloat())
    return std::nullopt;
  return llvm::divideCeil(elementType.getIntOrFloatBitWidth(), 8);
}

int64_t fp8moe::addSizes(int64_t a, int64_t b) {
  int64_t sum;
  if (ShapedType::isDynamic(a) || ShapedType::isDynamic(b) ||
      llvm::AddOverflow(a, b, sum))
    return ShapedType::kDynamic;
  return sum;
}

int64_t fp8moe::multiplySizes(int64_t a, int64_t b) {
  int64_t product;
  if (ShapedType::isDynamic(a) || ShapedType::isDynamic(b) ||
      llvm::MulOverflow(a, b, product))
    return ShapedType::kDynamic;
  return product;
}

int64_t fp8moe::ceilDivSizes(int64_t a, int64_t b) {
  if (ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || b == 0)
    return ShapedType::kDynamic;
  return a / b + (a % b != 0);
}

bool fp8moe::hasCountableBytes(RankedTensorType type) {
  int64_t bytes = getElementBytes(type.getElementType()).value_or(1);
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      bytes = multiplySizes(bytes, std::max<int64_t>(size, 1));
  return !ShapedType::isDynamic(bytes);
}

int64_t fp8moe::paddedExtent(int64_t size, int64_t groups, int64_t pad) {
  return multiplySizes(
      ceilDivSizes(addSizes(size, multiplySizes(groups, pad - 1)), pad), pad);
}

SmallVector<int64_t> fp8moe::computeStrides(ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> order) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(order)) {
    strides[dim] = stride;
    stride = multiplySizes(stride, shape[dim] == 0 ? 1 : shape[dim]);
  }
  return strides;
}

//===----------------------------------------------------------------------===//
// StridedLayout
//===----------------------------------------------------------------------===//

StridedLayout StridedLayout::getDense(ArrayRef<int64_t> shape,
                                      ArrayRef<int64_t> order) {
  StridedLayout layout;
  layout.order.assign(order.begin(), order.end());
  layout.strides = computeStrides(shape, order);
  return layout;
}

/// True when the given strides certainly are the dense ones. The stride of a
/// dimension of size 1 is never used.
static bool areDense(ArrayRef<int64_t> given, ArrayRef<int64_t> dense,
                     ArrayRef<int64_t> shape) {
  for (auto [stride, expected, size] : llvm::zip_equal(given, dense, shape))
    if (size != 1 && (ShapedType::isDynamic(stride) || stride != expected))
      return false;
  return true;
}

std::optional<StridedLayout> StridedLayout::get(RankedTensorType type) {
  Attribute encoding = type.getEncoding();
  if (!encoding)
    return getDense(type.getShape(), identityPermutation(type.getRank()));
  auto attr = dyn_cast<StridedEncodingAttr>(encoding);
  if (!attr)
    return std::nullopt;
  StridedLayout layout = getDense(type.getShape(), attr.getOrder());
  layout.align = attr.getAlign();
  layout.groups = attr.getGroups();
  ArrayRef<int64_t> given = attr.getStrides();
  if (given.empty())
    return layout;
  layout.dense = areDense(given, layout.strides, type.getShape());
  if (!layout.dense)
    layout.strides.assign(given.begin(), given.end());
  return layout;
}

RankedTensorType StridedLayout::getType(ArrayRef<int64_t> shape,
                                        Type elementType) const {
  if (dense && !align && !groups && llvm::is_sorted(order))
    return RankedTensorType::get(shape, elementType);
  auto encoding = StridedEncodingAttr::get(
      elementType.getContext(), order,
      dense ? ArrayRef<int64_t>() : ArrayRef<int64_t>(strides), align, groups);
  return RankedTensorType::get(shape, elementType, encoding);
}

/// The order without dimensions of size 1, whose place in memory means nothing.
static SmallVector<int64_t> significantOrder(ArrayRef<int64_t> order,
                                             ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(order);
  llvm::erase_if(result, [&](int64_t dim) { return shape[dim] == 1; });
  return result;
}

bool StridedLayout::isDenseRowMajor(ArrayRef<int64_t> shape) const {
  return dense && !groups && llvm::is_sorted(significantOrder(order, shape));
}

bool StridedLayout::isSameAs(const StridedLayout &other,
                             ArrayRef<int64_t> shape) const {
  if (groups != other.groups)
    return false;
  if (dense && other.dense)
    return order == other.order || significantOrder(order, shape) ==
                                       significantOrder(other.order, shape);
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (size == 1)
      continue;
    if (ShapedType::isDynamic(strides[dim]) ||
        strides[dim] != other.strides[dim])
      return false;
  }
  return true;
}

StridedLayout fp8moe::transposeLayout(const StridedLayout &layout,
                                      ArrayRef<int64_t> permutation) {
  StridedLayout result = layout;
  result.order = permuteOrder(layout.order, permutation);
  result.strides = permute(layout.strides, permutation);
  if (GroupPaddingAttr groups = layout.groups)
    result.groups = GroupPaddingAttr::get(
        groups.getContext(), invertPermutation(permutation)[groups.getDim()],
        groups.getPad());
  return result;
}

//===----------------------------------------------------------------------===//
// Tensor types
//===----------------------------------------------------------------------===//

bool fp8moe::hasLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && (!tensor.getEncoding() ||
                    isa<LayoutAttrInterface>(tensor.getEncoding()));
}

bool fp8moe::haveSameLayout(RankedTensorType a, RankedTensorType b) {
  if (a.getShape() != b.getShape() || a.getElementType() != b.getElementType())
    return false;
  if (a.getEncoding() == b.getEncoding())
    return true;
  std::optional<StridedLayout> layoutA = StridedLayout::get(a);
  std::optional<StridedLayout> layoutB = StridedLayout::get(b);
  return layoutA && layoutB && layoutA->isSameAs(*layoutB, a.getShape());
}

bool fp8moe::isNoopRelayout(Operation *op) {
  if (!isa<RelayoutOp, ContiguousOp>(op) || op->getNumOperands() != 1)
    return false;
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  return haveSameLayout(input, result) &&
         getBaseAlignment(result) <= getBaseAlignment(input);
}

GroupPaddingAttr fp8moe::getGroupPadding(RankedTensorType type) {
  Attribute encoding = type.getEncoding();
  if (auto strided = dyn_cast_or_null<StridedEncodingAttr>(encoding))
    return strided.getGroups();
  if (auto blocked = dyn_cast_or_null<ScaleBlockedEncodingAttr>(encoding))
    return blocked.getGroups();
  return {};
}

MemRefType fp8moe::getBufferType(RankedTensorType type) {
  if (auto layout = dyn_cast_or_null<LayoutAttrInterface>(type.getEncoding()))
    return layout.getBufferType(type);
  return MemRefType::get(type.getShape(), type.getElementType());
}

RankedTensorType fp8moe::dropLayout(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

int64_t fp8moe::getBaseAlignment(RankedTensorType type) {
  int64_t elementBytes = getElementBytes(type.getElementType()).value_or(1);
  auto strided = dyn_cast_or_null<StridedEncodingAttr>(type.getEncoding());
  return strided ? std::max(strided.getAlign(), elementBytes) : elementBytes;
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// True when parts merge into `whole`, or split from it: the same number of
/// elements, or unknown sizes on both sides. A split has at most one unknown
/// part.
static bool fitsRun(int64_t whole, ArrayRef<int64_t> parts, bool isSplit) {
  int64_t known = 1, unknown = 0;
  for (int64_t part : parts) {
    if (ShapedType::isDynamic(part))
      ++unknown;
    else
      known = multiplySizes(known, part);
  }
  if (ShapedType::isDynamic(known))
    return false; // More elements than 64 bits can count.
  if (!ShapedType::isDynamic(whole))
    return unknown == 0 && known == whole;
  // The unknown part of a split follows by division, so there is exactly one.
  return isSplit ? unknown == 1 : unknown > 0;
}

namespace {
/// Depth-first search for the runs of a reshape, shortest runs first.
class ReshapeMatcher {
public:
  ReshapeMatcher(ArrayRef<int64_t> input, ArrayRef<int64_t> result)
      : input(input), result(result) {}

  /// Finds ways to match all dimensions, at most `limit` of them, and returns
  /// how many. `runs` is the last one.
  int64_t findMatches(int64_t limit) {
    this->limit = limit;
    matchFrom(0, 0);
    return numMatches;
  }

  SmallVector<ReshapeRun> runs;

private:
  /// Matches the dimensions from `i` of the input and `j` of the result on.
  /// True when there are enough matches.
  bool matchFrom(int64_t i, int64_t j);
  bool tryRun(ReshapeRun run);

  ArrayRef<int64_t> input, result;
  int64_t limit = 0, numMatches = 0;
  /// Where no match is; without it the search would take exponential time.
  llvm::SmallDenseSet<std::pair<int64_t, int64_t>> deadEnds;
};
} // namespace

bool ReshapeMatcher::tryRun(ReshapeRun run) {
  runs.push_back(run);
  if (matchFrom(run.inputEnd, run.resultEnd))
    return true;
  runs.pop_back();
  return false;
}

bool ReshapeMatcher::matchFrom(int64_t i, int64_t j) {
  int64_t inputRank = input.size(), resultRank = result.size();
  if (i == inputRank && j == resultRank)
    return ++numMatches == limit;
  if (i == inputRank || j == resultRank || deadEnds.contains({i, j}))
    return false;
  int64_t matchesBefore = numMatches;
  if (input[i] == result[j] && tryRun({i, i + 1, j, j + 1}))
    return true;
  for (int64_t end = i + 2; end <= inputRank; ++end)
    if (fitsRun(result[j], input.slice(i, end - i), /*isSplit=*/false) &&
        tryRun({i, end, j, j + 1}))
      return true;
  for (int64_t end = j + 2; end <= resultRank; ++end)
    if (fitsRun(input[i], result.slice(j, end - j), /*isSplit=*/true) &&
        tryRun({i, i + 1, j, end}))
      return true;
  if (numMatches == matchesBefore)
    deadEnds.insert({i, j});
  return false;
}

std::optional<SmallVector<ReshapeRun>>
fp8moe::matchReshape(ArrayRef<int64_t> inputShape,
                     ArrayRef<int64_t> resultShape) {
  ReshapeMatcher matcher(inputShape, resultShape);
  if (matcher.findMatches(/*limit=*/1) == 0)
    return std::nullopt;
  return matcher.runs;
}

bool fp8moe::isAmbiguousReshape(ArrayRef<int64_t> inputShape,
                                ArrayRef<int64_t> resultShape) {
  if (hasUniqueReshape(resultShape))
    return false;
  // Dimensions of size 1 may belong to any run.
  auto withoutOnes = [](ArrayRef<int64_t> shape) {
    return llvm::filter_to_vector(shape,
                                  [](int64_t size) { return size != 1; });
  };
  SmallVector<int64_t> input = withoutOnes(inputShape);
  SmallVector<int64_t> result = withoutOnes(resultShape);
  return ReshapeMatcher(input, result).findMatches(/*limit=*/2) > 1;
}

bool fp8moe::hasUniqueReshape(ArrayRef<int64_t> resultShape) {
  return llvm::count_if(resultShape, ShapedType::isDynamic) <= 1 &&
         !llvm::is_contained(resultShape, 0);
}

/// The stride of a merged run, or none when its dimensions are not adjacent.
/// `position` is each significant dimension's place in the memory order.
static std::optional<int64_t> mergeStride(const StridedLayout &layout,
                                          ArrayRef<int64_t> shape,
                                          const ReshapeRun &run,
                                          ArrayRef<int64_t> position) {
  std::optional<int64_t> inner;
  int64_t stride = 1;
  for (int64_t dim = run.inputEnd - 1; dim >= run.inputBegin; --dim) {
    if (shape[dim] == 1)
      continue;
    if (!inner) {
      stride = layout.strides[dim];
    } else if (layout.dense) {
      if (position[dim] + 1 != position[*inner])
        return std::nullopt;
    } else {
      int64_t adjacent = multiplySizes(layout.strides[*inner], shape[*inner]);
      if (ShapedType::isDynamic(adjacent) || adjacent != layout.strides[dim])
        return std::nullopt;
    }
    inner = dim;
  }
  return stride;
}

/// The strides, where those of dimensions of size 1, which mean nothing, are
/// replaced so that strides do not decrease outwards.
static SmallVector<int64_t> withOrderedStrides(const StridedLayout &layout,
                                               ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides = layout.strides;
  int64_t extent = 1;
  for (int64_t dim : llvm::reverse(layout.order)) {
    if (shape[dim] == 1)
      strides[dim] = extent;
    else
      extent = multiplySizes(strides[dim], std::max<int64_t>(shape[dim], 1));
  }
  return strides;
}

/// True where no known stride is smaller than one further in, which encodings
/// demand. The extent that a split steps over may be more than the stride
/// outside it where an unknown size can only be one.
static bool growsOutwards(ArrayRef<int64_t> strides, ArrayRef<int64_t> order) {
  int64_t inner = 0;
  for (int64_t dim : llvm::reverse(order)) {
    if (ShapedType::isDynamic(strides[dim]))
      continue;
    if (strides[dim] < inner)
      return false;
    inner = strides[dim];
  }
  return true;
}

/// Whether the result may keep `align`, which promises that every pitch is a
/// multiple of so many bytes. The verifier of the encoding checks known
/// pitches; an unknown one is safe if it is a multiple of a pitch of the input.
/// It may not be where a dimension is split and a part other than the outermost
/// is unknown, or where the innermost stride, of which `align` says nothing,
/// is.
static bool keepsAlignment(const StridedLayout &layout,
                           ArrayRef<ReshapeRun> runs,
                           ArrayRef<int64_t> resultShape) {
  if (layout.order.empty() ||
      ShapedType::isDynamic(layout.strides[layout.order.back()]))
    return false;
  return llvm::none_of(runs, [&](const ReshapeRun &run) {
    ArrayRef<int64_t> parts =
        resultShape.slice(run.resultBegin, run.resultEnd - run.resultBegin);
    return llvm::any_of(parts.drop_front(), ShapedType::isDynamic);
  });
}

std::optional<StridedLayout>
fp8moe::reshapeLayout(const StridedLayout &layout, ArrayRef<int64_t> inputShape,
                      ArrayRef<int64_t> resultShape) {
  if (layout.groups)
    return std::nullopt;
  std::optional<SmallVector<ReshapeRun>> runs =
      matchReshape(inputShape, resultShape);
  if (!runs)
    return std::nullopt;

  SmallVector<int64_t> order = significantOrder(layout.order, inputShape);
  SmallVector<int64_t> position(inputShape.size(), -1);
  for (auto [i, dim] : llvm::enumerate(order))
    position[dim] = i;

  StridedLayout result;
  result.dense = layout.dense;
  result.align = keepsAlignment(layout, *runs, resultShape) ? layout.align : 0;
  result.strides.resize(resultShape.size());
  SmallVector<const ReshapeRun *> runOf(inputShape.size());
  for (const ReshapeRun &run : *runs) {
    std::optional<int64_t> stride =
        mergeStride(layout, inputShape, run, position);
    if (!stride)
      return std::nullopt;
    for (int64_t j = run.resultEnd - 1; j >= run.resultBegin; --j) {
      result.strides[j] = *stride;
      // Outside an unknown part of a split lies a stride that no type can say:
      // it is not just any, but a multiple of the known one.
      if (!layout.dense && ShapedType::isDynamic(resultShape[j]) &&
          j > run.resultBegin)
        return std::nullopt;
      stride = multiplySizes(*stride, resultShape[j] == 0 ? 1 : resultShape[j]);
    }
    for (int64_t i = run.inputBegin; i < run.inputEnd; ++i)
      runOf[i] = &run;
  }

  // Runs keep the place of their input dimensions; runs of ones go outermost.
  llvm::SmallPtrSet<const ReshapeRun *, 4> placed;
  auto place = [&](const ReshapeRun &run) {
    if (placed.insert(&run).second)
      llvm::append_range(result.order,
                         llvm::seq(run.resultBegin, run.resultEnd));
  };
  for (const ReshapeRun &run : *runs)
    if (llvm::all_of(llvm::seq(run.inputBegin, run.inputEnd),
                     [&](int64_t i) { return inputShape[i] == 1; }))
      place(run);
  for (int64_t dim : order)
    place(*runOf[dim]);
  if (result.dense)
    result.strides = computeStrides(resultShape, result.order);
  else
    result.strides = withOrderedStrides(result, resultShape);
  if (!growsOutwards(result.strides, result.order))
    return std::nullopt;
  return result;
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

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
