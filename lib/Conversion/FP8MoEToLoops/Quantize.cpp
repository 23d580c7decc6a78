//===- Quantize.cpp - FP8 scales and casts --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every operation is built from three steps on slices along one dimension: the
// scales of the slices, the FP8 cast, and its inverse. Loops run in the memory
// order of the input, so that the innermost one reads consecutive elements.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "OpLowering.h"
#include "Scaling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// The slices of `input` along `axis`, over [begin, end) of it. With `group`
/// they are those of one jagged group, and scales have the group as first
/// index. With `band` they are those of a part of another dimension.
struct Slices {
  const TensorBuffer &input;
  int64_t axis;
  Value begin, end;
  Value group;

  /// The f32 value of an element.
  Value loadElement(LoopBuilder &b, ArrayRef<Value> indices) const {
    return toF32(b, input.load(b, indices));
  }

  SmallVector<Value> getScaleIndices(ArrayRef<Value> indices) const {
    SmallVector<Value> result(indices);
    result.erase(result.begin() + axis);
    if (group)
      result.insert(result.begin(), group);
    return result;
  }

  /// True when a slice lies in consecutive elements.
  bool areContiguous() const { return input.getMemoryOrder().back() == axis; }

  /// One loop per dimension but the axis; `body` gets indices with a null at
  /// the axis.
  void forEachSlice(LoopBuilder &b,
                    function_ref<void(ArrayRef<Value>)> body) const {
    SmallVector<int64_t> order = input.getMemoryOrder();
    llvm::erase(order, axis);
    nest(b, order, body);
  }

  /// One loop per dimension, in memory order.
  void forEachElement(LoopBuilder &b,
                      function_ref<void(ArrayRef<Value>)> body) const {
    nest(b, input.getMemoryOrder(), body);
  }

  /// Visits every element together with something that its slice has, which
  /// `prepare` reads: once per slice when slices are contiguous.
  void forEachElement(LoopBuilder &b,
                      function_ref<Value(ArrayRef<Value>)> prepare,
                      function_ref<void(ArrayRef<Value>, Value)> body) const {
    if (!areContiguous())
      return forEachElement(
          b, [&](ArrayRef<Value> indices) { body(indices, prepare(indices)); });
    forEachSlice(b, [&](ArrayRef<Value> slice) {
      Value prepared = prepare(slice);
      b.forEach(begin, end, [&](Value i) {
        SmallVector<Value> indices(slice);
        indices[axis] = i;
        body(indices, prepared);
      });
    });
  }

private:
  /// A loop for each dimension of `order`, over what is in the slices.
  void nest(LoopBuilder &b, ArrayRef<int64_t> order,
            function_ref<void(ArrayRef<Value>)> body) const {
    SmallVector<Value> lowers(input.sizes.size(), b.index(0)),
        uppers(input.sizes);
    lowers[axis] = begin;
    uppers[axis] = end;
    b.nest(order, lowers, uppers, body);
  }
};

/// All slices of a tensor along `axis`.
Slices getWholeSlices(LoopBuilder &b, const TensorBuffer &input, int64_t axis) {
  return {input, axis, b.index(0), input.sizes[axis], Value()};
}

/// Magnitude bits of one element.
Value loadMagnitude(LoopBuilder &b, const Slices &slices,
                    ArrayRef<Value> indices) {
  return getMagnitudeBits(b, slices.loadElement(b, indices));
}

/// Scales of contiguous slices: one reduction each.
void writeContiguousScales(LoopBuilder &b, const Slices &slices,
                           const TensorBuffer &scales, Type fp8,
                           ScaleRounding rounding) {
  slices.forEachSlice(b, [&](ArrayRef<Value> slice) {
    Value amax =
        b.forEach(slices.begin, slices.end, b.constantI32(0),
                  [&](Value i, ValueRange carried) -> SmallVector<Value> {
                    SmallVector<Value> indices(slice);
                    indices[slices.axis] = i;
                    Value magnitude = loadMagnitude(b, slices, indices);
                    return {arith::MaxUIOp::create(b, carried[0], magnitude)};
                  })[0];
    scales.store(b, getScale(b, amax, fp8, rounding),
                 slices.getScaleIndices(slice));
  });
}

/// Scales of slices whose elements are apart: all reductions advance together,
/// along the memory order, and keep their magnitudes where the scales go.
void writeStridedScales(LoopBuilder &b, const Slices &slices,
                        const TensorBuffer &scales, Type fp8,
                        ScaleRounding rounding) {
  auto loadBits = [&](ArrayRef<Value> indices) -> Value {
    return arith::BitcastOp::create(b, b.getI32Type(), scales.load(b, indices));
  };
  slices.forEachSlice(b, [&](ArrayRef<Value> slice) {
    scales.store(b, b.constantF32(0.0f), slices.getScaleIndices(slice));
  });
  slices.forEachElement(b, [&](ArrayRef<Value> indices) {
    SmallVector<Value> scaleIndices = slices.getScaleIndices(indices);
    Value magnitude = loadMagnitude(b, slices, indices);
    Value amax = arith::MaxUIOp::create(b, loadBits(scaleIndices), magnitude);
    scales.store(b, arith::BitcastOp::create(b, b.getF32Type(), amax),
                 scaleIndices);
  });
  slices.forEachSlice(b, [&](ArrayRef<Value> slice) {
    SmallVector<Value> scaleIndices = slices.getScaleIndices(slice);
    Value scale = getScale(b, loadBits(scaleIndices), fp8, rounding);
    scales.store(b, scale, scaleIndices);
  });
}

/// (Q1), (Q2), (Q3): the scale of every slice.
void writeScales(LoopBuilder &b, const Slices &slices,
                 const TensorBuffer &scales, Type fp8, ScaleRounding rounding) {
  if (slices.areContiguous())
    writeContiguousScales(b, slices, scales, fp8, rounding);
  else
    writeStridedScales(b, slices, scales, fp8, rounding);
}

/// (Q4): the FP8 data of every slice. They begin at `resultBegin` along the
/// axis of the result.
void writeQuantized(LoopBuilder &b, const Slices &slices,
                    const TensorBuffer &scales, const TensorBuffer &result,
                    Value resultBegin) {
  Value shift = b.sub(resultBegin, slices.begin);
  slices.forEachElement(
      b,
      [&](ArrayRef<Value> indices) {
        return scales.load(b, slices.getScaleIndices(indices));
      },
      [&](ArrayRef<Value> indices, Value scale) {
        SmallVector<Value> to(indices);
        to[slices.axis] = b.add(indices[slices.axis], shift);
        Value x = slices.loadElement(b, indices);
        result.store(b, quantizeElement(b, x, scale, result.getElementType()),
                     to);
      });
}

/// (Q10): the inverse.
void writeDequantized(LoopBuilder &b, const Slices &slices,
                      const TensorBuffer &scales, const TensorBuffer &result,
                      ScaleDirection direction) {
  slices.forEachElement(
      b,
      [&](ArrayRef<Value> indices) {
        return getDequantizingScale(
            b, scales.load(b, slices.getScaleIndices(indices)), direction);
      },
      [&](ArrayRef<Value> indices, Value scale) {
        Value q = toF32(b, slices.input.load(b, indices));
        Value product = arith::MulFOp::create(b, q, scale);
        result.store(b, fromF32(b, product, result.getElementType()), indices);
      });
}

/// Calls `body` for the slices of each group, or for all slices without
/// offsets. Elements of no group become zero in `result`.
void forEachSlices(OpLowering &l, const TensorBuffer &input, int64_t axis,
                   Value offsets, const TensorBuffer *result,
                   function_ref<void(const Slices &)> body) {
  LoopBuilder &b = l.b;
  if (!offsets)
    return body(getWholeSlices(b, input, axis));
  Value end = forEachGroup(
      b, l.getBuffer(offsets), input.sizes[axis], [&](const Group &group) {
        body({input, axis, group.begin, group.end, group.number});
      });
  if (result)
    result->fillZero(b, axis, end, result->sizes[axis]);
}

} // namespace

static void lowerScale(ScaleOp op, OpLowering &l) {
  writeScales(l.b,
              getWholeSlices(l.b, l.getBuffer(op.getInput()), op.getAxis()),
              l.getBuffer(op.getScale()), op.getFp8Type(), op.getRounding());
}

static void lowerJaggedScale(JaggedScaleOp op, OpLowering &l) {
  forEachSlices(l, l.getBuffer(op.getInput()), op.getAxis(), op.getOffsets(),
                /*result=*/nullptr, [&](const Slices &slices) {
                  writeScales(l.b, slices, l.getBuffer(op.getScale()),
                              op.getFp8Type(), op.getRounding());
                });
}

static void lowerQuantize(QuantizeOp op, OpLowering &l) {
  const TensorBuffer &result = l.getBuffer(op.getResult());
  forEachSlices(l, l.getBuffer(op.getInput()), op.getAxis(), op.getOffsets(),
                &result, [&](const Slices &slices) {
                  writeQuantized(l.b, slices, l.getBuffer(op.getScale()),
                                 result, slices.begin);
                });
}

static void lowerDequantize(DequantizeOp op, OpLowering &l) {
  const TensorBuffer &result = l.getBuffer(op.getResult());
  forEachSlices(l, l.getBuffer(op.getInput()), op.getAxis(), op.getOffsets(),
                &result, [&](const Slices &slices) {
                  writeDequantized(l.b, slices, l.getBuffer(op.getScale()),
                                   result, op.getDirection());
                });
}

/// The pair of results of slices where they are in the input.
static void quantizeSlices(OpLowering &l, const Slices &slices,
                           const TensorBuffer &data, const TensorBuffer &scales,
                           ScaleRounding rounding) {
  writeScales(l.b, slices, scales, data.getElementType(), rounding);
  writeQuantized(l.b, slices, scales, data, slices.begin);
}

/// The pair of results of jagged slices along `axis`. Data of padded groups
/// start where padding puts them, and padding is zero.
static void quantizeJaggedSlices(OpLowering &l, const TensorBuffer &input,
                                 const TensorBuffer &offsets, int64_t axis,
                                 const TensorBuffer &data,
                                 const TensorBuffer &scales,
                                 ScaleRounding rounding) {
  LoopBuilder &b = l.b;
  GroupPaddingAttr padding = getGroupPadding(data.type);
  GroupsEnd end = forEachGroup(
      b, offsets, input.sizes[axis], [&](const Group &group, Value start) {
        Slices slices{input, axis, group.begin, group.end, group.number};
        writeScales(b, slices, scales, data.getElementType(), rounding);
        writeQuantized(b, slices, scales, data, padding ? start : group.begin);
        return padding ? fillGroupPadding(b, data, padding, start,
                                          b.sub(group.end, group.begin))
                       : start;
      });
  data.fillZero(b, axis, padding ? end.cursor : end.position, data.sizes[axis]);
}

static void lowerDynamicQuantize(DynamicQuantizeOp op, OpLowering &l) {
  for (auto [axis, data, scales] :
       llvm::zip_equal(op.getAxes(), op.getQuantized(), op.getScales()))
    quantizeSlices(l, getWholeSlices(l.b, l.getBuffer(op.getInput()), axis),
                   l.getBuffer(data), l.getBuffer(scales), op.getRounding());
}

static void lowerJaggedDynamicQuantize(JaggedDynamicQuantizeOp op,
                                       OpLowering &l) {
  const TensorBuffer &input = l.getBuffer(op.getInput());
  // (J6): only the first axis is jagged.
  quantizeJaggedSlices(l, input, l.getBuffer(op.getOffsets()), op.getAxes()[0],
                       l.getBuffer(op.getQuantized()[0]),
                       l.getBuffer(op.getScales()[0]), op.getRounding());
  if (op.getAxes().size() == 1)
    return;
  quantizeSlices(l, getWholeSlices(l.b, input, op.getAxes()[1]),
                 l.getBuffer(op.getQuantized()[1]),
                 l.getBuffer(op.getScales()[1]), op.getRounding());
}

void mlir::fp8moe::populateQuantizePatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerScale, lowerJaggedScale, lowerQuantize,
               lowerDequantize, lowerDynamicQuantize,
               lowerJaggedDynamicQuantize);
}
