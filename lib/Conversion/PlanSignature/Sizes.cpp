//===- Sizes.cpp - Sizes in a program, and what they must be --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/PlanSignature.h"

#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<OpFoldResult>> PlanSignature::getSizes(Value tensor,
                                                             Operation *user) {
  auto it = sizes.find(tensor);
  if (it != sizes.end())
    return it->second;
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.hasStaticShape())
    return getAsIndexOpFoldResult(user->getContext(), type.getShape());
  InFlightDiagnostic diagnostic =
      user->emitError("needs the size of a value of type ")
      << type
      << " before the program runs, but it does not follow from the sizes "
         "of the inputs; give it a static shape";
  if (Operation *op = tensor.getDefiningOp();
      isa_and_nonnull<scf::IfOp, arith::SelectOp>(op))
    diagnostic.attachNote(op->getLoc())
        << "both branches must give tensors whose sizes follow alike from the "
           "sizes of the inputs";
  return diagnostic;
}

FailureOr<OpFoldResult> PlanSignature::getSize(Value tensor, int64_t dim,
                                               Operation *user) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return OpFoldResult(getBuilder().getIndexAttr(type.getDimSize(dim)));
  FailureOr<SmallVector<OpFoldResult>> shape = getSizes(tensor, user);
  if (failed(shape))
    return failure();
  return (*shape)[dim];
}

using ValuePairs = llvm::SmallDenseSet<std::pair<Value, Value>>;

/// Whether two sizes are certainly equal: the same computation. Each pair of
/// its values is compared once (`seen`).
static bool areSame(OpFoldResult first, OpFoldResult second, ValuePairs &seen) {
  if (isEqualConstantIntOrValue(first, second))
    return true;
  auto a = dyn_cast<Value>(first), b = dyn_cast<Value>(second);
  if (a && b && !seen.insert({a, b}).second)
    return true;
  Operation *opA = a ? a.getDefiningOp() : nullptr;
  Operation *opB = b ? b.getDefiningOp() : nullptr;
  return opA && opB &&
         OperationEquivalence::isEquivalentTo(
             opA, opB,
             [&](Value x, Value y) { return success(areSame(x, y, seen)); },
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

static bool areSame(OpFoldResult first, OpFoldResult second) {
  ValuePairs seen;
  return areSame(first, second, seen);
}

void PlanSignature::computeFlowSizes(Operation &op) {
  auto agree = [&](Value first, Value second, Value result) {
    auto a = sizes.find(first), b = sizes.find(second);
    if (a != sizes.end() && b != sizes.end() &&
        llvm::all_of(llvm::zip_equal(a->second, b->second), [](auto pair) {
          auto [x, y] = pair;
          return areSame(x, y);
        }))
      sizes[result] = SmallVector<OpFoldResult>(a->second);
  };
  if (auto select = dyn_cast<arith::SelectOp>(op))
    agree(select.getTrueValue(), select.getFalseValue(), select);
  // Loop results have the sizes of the initial values (requireLoop).
  if (auto loop = dyn_cast<scf::ForOp>(op))
    for (auto [init, argument, result] : llvm::zip_equal(
             loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults()))
      if (auto it = sizes.find(init); it != sizes.end()) {
        SmallVector<OpFoldResult> shape(it->second);
        sizes[argument] = shape;
        sizes[result] = shape;
      }
  // At the yield of the else branch the sizes that both branches yield are
  // known. Where they are equal, the results of the scf.if have them.
  auto branch = dyn_cast_or_null<scf::IfOp>(op.getParentOp());
  if (branch && isa<scf::YieldOp>(op) &&
      op.getParentRegion() == &branch.getElseRegion())
    for (auto [first, second, result] :
         llvm::zip_equal(branch.thenYield().getOperands(), op.getOperands(),
                         branch.getResults()))
      agree(first, second, result);
}

/// Computes the sizes of an operation's tensor results; what cannot be computed
/// is left out and reported when somebody asks for it.
LogicalResult PlanSignature::computeSizes(Operation &op) {
  computeFlowSizes(op);
  auto isKnown = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !type || type.hasStaticShape() || sizes.contains(value);
  };
  if (!llvm::all_of(op.getOperands(), isKnown))
    return success();
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(cast.getType());
    if (!type || !isa<RankedTensorType>(cast.getSource().getType()))
      return success();
    SmallVector<OpFoldResult> &shape = sizes[cast.getResult()];
    shape = *getSizes(cast.getSource(), cast);
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (!type.isDynamicDim(dim))
        shape[dim] = getBuilder().getIndexAttr(type.getDimSize(dim));
    return success();
  }
  auto interface = dyn_cast<ResultSizesOpInterface>(op);
  if (!interface)
    return success();
  OpBuilder builder = getBuilder();
  auto getDim = [&](TypedValue<RankedTensorType> value, int64_t dim) {
    return sizes.lookup(value)[dim];
  };
  ResultSizes resultSizes;
  if (failed(interface.reifyResultSizes({builder, op.getLoc(), getDim},
                                        resultSizes)))
    return failure();
  for (auto [result, shape] : llvm::zip_equal(op.getResults(), resultSizes))
    sizes[result] = shape;
  return success();
}

//===----------------------------------------------------------------------===//
// Requirements
//===----------------------------------------------------------------------===//

/// The first position of `value` in the operands of `op`.
static unsigned operandNumber(Operation &op, Value value) {
  return std::distance(op.operand_begin(), llvm::find(op.getOperands(), value));
}

LogicalResult PlanSignature::requireEqualSizes(ResultSizesOpInterface op) {
  SmallVector<EqualSizes> pairs;
  op.getEqualSizes(pairs);
  for (const EqualSizes &pair : pairs) {
    auto isStatic = [](Value tensor, int64_t dim) {
      return !cast<RankedTensorType>(tensor.getType()).isDynamicDim(dim);
    };
    // The verifier has compared these.
    if (isStatic(pair.first, pair.firstDim) &&
        isStatic(pair.second, pair.secondDim))
      continue;
    FailureOr<OpFoldResult> first = getSize(pair.first, pair.firstDim, op);
    FailureOr<OpFoldResult> second = getSize(pair.second, pair.secondDim, op);
    if (failed(first) || failed(second))
      return failure();
    require(arith::CmpIPredicate::eq, *first, *second,
            op->getName().getStringRef() + ": dimension " +
                Twine(pair.firstDim) + " of operand " +
                Twine(operandNumber(*op, pair.first)) + " and dimension " +
                Twine(pair.secondDim) + " of operand " +
                Twine(operandNumber(*op, pair.second)) + " must be equal",
            op.getLoc());
  }
  return success();
}

LogicalResult PlanSignature::requireBlockScales(
    Operation *op, TypedValue<RankedTensorType> scales,
    function_ref<SmallVector<OpFoldResult>(SizeBuilder)> getSizes) {
  OpBuilder builder = getBuilder();
  bool isKnown = true;
  auto getDim = [&](TypedValue<RankedTensorType> tensor,
                    int64_t dim) -> OpFoldResult {
    FailureOr<OpFoldResult> size = getSize(tensor, dim, op);
    isKnown &= succeeded(size);
    return succeeded(size) ? *size : builder.getIndexAttr(0);
  };
  for (auto [dim, size] :
       llvm::enumerate(getSizes({builder, op->getLoc(), getDim}))) {
    OpFoldResult found = getDim(scales, dim);
    if (!isKnown)
      return failure();
    // The verifier has compared constants.
    if (getConstantIntValue(found) && getConstantIntValue(size))
      continue;
    require(arith::CmpIPredicate::eq, found, size,
            op->getName().getStringRef() + ": dimension " + Twine(dim) +
                " of operand " + Twine(operandNumber(*op, scales)) +
                " does not fit the data that it scales",
            op->getLoc());
  }
  return success();
}

LogicalResult PlanSignature::requireMatmul(MatmulOpInterface op) {
  if (failed(requireEqualSizes(cast<ResultSizesOpInterface>(*op))))
    return failure();
  if (!hasBlockScales(op))
    return success();
  for (bool ofA : {true, false})
    if (failed(requireBlockScales(op, ofA ? op.getScaleA() : op.getScaleB(),
                                  [&](SizeBuilder size) {
                                    return getBlockScaleSizes(op, ofA, size);
                                  })))
      return failure();
  return success();
}

LogicalResult PlanSignature::requireCast(tensor::CastOp op) {
  auto source = dyn_cast<RankedTensorType>(op.getSource().getType());
  auto result = dyn_cast<RankedTensorType>(op.getType());
  if (!source || !result)
    return success();
  for (int64_t dim = 0; dim < source.getRank(); ++dim) {
    if (!source.isDynamicDim(dim) || result.isDynamicDim(dim))
      continue;
    FailureOr<OpFoldResult> size = getSize(op.getSource(), dim, op);
    if (failed(size))
      return failure();
    int64_t expected = result.getDimSize(dim);
    OpBuilder builder = getBuilder();
    require(arith::CmpIPredicate::eq, *size, builder.getIndexAttr(expected),
            "tensor.cast: dimension " + Twine(dim) + " must be " +
                Twine(expected),
            op.getLoc());
  }
  return success();
}

LogicalResult PlanSignature::requireReshape(ReshapeOp op) {
  ArrayRef<int64_t> input = op.getInput().getType().getShape();
  ArrayRef<int64_t> result = op.getType().getShape();
  OpBuilder builder = getBuilder();
  SizeBuilder size(builder, op.getLoc());
  // The verifier has matched the shapes.
  SmallVector<ReshapeRun> runs = *matchReshape(input, result);
  for (const ReshapeRun &run : runs) {
    ArrayRef<int64_t> from =
        input.slice(run.inputBegin, run.inputEnd - run.inputBegin);
    ArrayRef<int64_t> to =
        result.slice(run.resultBegin, run.resultEnd - run.resultBegin);
    bool isOpen = llvm::any_of(to, ShapedType::isDynamic);
    if (!llvm::any_of(from, ShapedType::isDynamic) ||
        (isOpen && to.size() == 1))
      continue;
    // The known part of the result must divide the elements of the run, or be
    // all of them.
    OpFoldResult elements = size.constant(1), known = size.constant(1);
    for (int64_t dim = run.inputBegin; dim < run.inputEnd; ++dim) {
      FailureOr<OpFoldResult> extent = getSize(op.getInput(), dim, op);
      if (failed(extent))
        return failure();
      elements = size.mul(elements, *extent);
    }
    for (int64_t extent : to)
      if (!ShapedType::isDynamic(extent))
        known = size.mul(known, size.constant(extent));
    std::optional<int64_t> divisor = getConstantIntValue(known);
    bool divides = isOpen && divisor.value_or(0) != 0;
    if (divides && *divisor == 1)
      continue;
    require(arith::CmpIPredicate::eq,
            divides ? size.rem(elements, *divisor) : elements,
            divides ? size.constant(0) : known,
            "fp8moe.reshape: the elements of dimensions " +
                Twine(run.inputBegin) + " to " + Twine(run.inputEnd - 1) +
                " do not fill dimensions " + Twine(run.resultBegin) + " to " +
                Twine(run.resultEnd - 1) + " of the result",
            op.getLoc());
  }
  return success();
}

LogicalResult PlanSignature::requireLoop(scf::YieldOp op) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop)
    return success();
  for (auto [index, yielded, argument] :
       llvm::enumerate(op.getOperands(), loop.getRegionIterArgs())) {
    if (!sizes.contains(argument))
      continue;
    FailureOr<SmallVector<OpFoldResult>> next = getSizes(yielded, op);
    if (failed(next))
      return failure();
    SmallVector<OpFoldResult> first = sizes.lookup(argument);
    for (auto [dim, size, before] : llvm::enumerate(*next, first)) {
      if (areSame(size, before))
        continue;
      std::optional<int64_t> a = getConstantIntValue(before);
      std::optional<int64_t> b = getConstantIntValue(size);
      if (a && b)
        return op.emitError("changes the size of dimension ")
               << dim << " of iteration argument #" << index << " from " << *a
               << " to " << *b
               << "; write the iterations one after another, or keep the size";
      require(arith::CmpIPredicate::eq, size, before,
              "scf.for: dimension " + Twine(dim) + " of iteration argument #" +
                  Twine(index) + " must be the same in every iteration",
              op.getLoc());
    }
  }
  return success();
}

LogicalResult PlanSignature::requireSizes(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](tensor::CastOp op) { return requireCast(op); })
      .Case([&](ReshapeOp op) { return requireReshape(op); })
      .Case([&](scf::YieldOp op) { return requireLoop(op); })
      .Case([&](MXDequantizeOp op) {
        return requireBlockScales(op, op.getScale(), [&](SizeBuilder size) {
          return op.getScaleSizes(size);
        });
      })
      .Case([&](MatmulOpInterface op) { return requireMatmul(op); })
      .Case([&](ResultSizesOpInterface op) { return requireEqualSizes(op); })
      .Default(success());
}
