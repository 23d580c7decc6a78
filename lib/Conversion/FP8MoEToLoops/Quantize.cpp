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
/// index.
struct Slices {
  LoopBuilder &b;
  const TensorBuffer &input;
  int64_t axis;
  Value begin, end;
  Value group;

  /// The f32 value of an element.
  Value loadElement(ArrayRef<Value> indices) const {
    return toF32(b, input.load(b, indices));
  }
  /// The bits of its magnitude.
  Value loadMagnitude(ArrayRef<Value> indices) const {
    return getMagnitudeBits(b, loadElement(indices));
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
  void forEachSlice(function_ref<void(ArrayRef<Value>)> body) const {
    SmallVector<int64_t> order = input.getMemoryOrder();
    llvm::erase(order, axis);
    nest(order, body);
  }

  /// One loop per dimension, in memory order.
  void forEachElement(function_ref<void(ArrayRef<Value>)> body) const {
    nest(input.getMemoryOrder(), body);
  }

  /// Visits every element together with something that its slice has, which
  /// `prepare` reads: once per slice when slices are contiguous.
  void forEachElement(function_ref<Value(ArrayRef<Value>)> prepare,
                      function_ref<void(ArrayRef<Value>, Value)> body) const {
    if (!areContiguous())
      return forEachElement(
          [&](ArrayRef<Value> indices) { body(indices, prepare(indices)); });
    forEachSlice([&](ArrayRef<Value> slice) {
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
  void nest(ArrayRef<int64_t> order,
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
  return {b, input, axis, b.index(0), input.sizes[axis], Value()};
}

/// Scales of contiguous slices: one reduction each.
void writeContiguousScales(const Slices &slices, const TensorBuffer &scales,
                           Type fp8, ScaleRounding rounding) {
  LoopBuilder &b = slices.b;
  slices.forEachSlice([&](ArrayRef<Value> slice) {
    Value amax =
        b.forEach(slices.begin, slices.end, b.constantI32(0),
                  [&](Value i, ValueRange carried) -> SmallVector<Value> {
                    SmallVector<Value> indices(slice);
                    indices[slices.axis] = i;
                    Value magnitude = slices.loadMagnitude(indices);
                    return {arith::MaxUIOp::create(b, carried[0], magnitude)};
                  })[0];
    scales.store(b, getScale(b, amax, fp8, rounding),
                 slices.getScaleIndices(slice));
  });
}

/// Scales of slices whose elements are apart: all reductions advance together,
/// along the memory order, and keep their magnitudes where the scales go.
void writeStridedScales(const Slices &slices, const TensorBuffer &scales,
                        Type fp8, ScaleRounding rounding) {
  LoopBuilder &b = slices.b;
  auto loadBits = [&](ArrayRef<Value> indices) -> Value {
    return arith::BitcastOp::create(b, b.getI32Type(), scales.load(b, indices));
  };
  slices.forEachSlice([&](ArrayRef<Value> slice) {
    scales.store(b, b.constantF32(0.0f), slices.getScaleIndices(slice));
  });
  slices.forEachElement([&](ArrayRef<Value> indices) {
    SmallVector<Value> scaleIndices = slices.getScaleIndices(indices);
    Value magnitude = slices.loadMagnitude(indices);
    Value amax = arith::MaxUIOp::create(b, loadBits(scaleIndices), magnitude);
    scales.store(b, arith::BitcastOp::create(b, b.getF32Type(), amax),
                 scaleIndices);
  });
  slices.forEachSlice([&](ArrayRef<Value> slice) {
    SmallVector<Value> scaleIndices = slices.getScaleIndices(slice);
    Value scale = getScale(b, loadBits(scaleIndices), fp8, rounding);
    scales.store(b, scale, scaleIndices);
  });
}

/// (Q1), (Q2), (Q3): the scale of every slice.
void writeScales(const Slices &slices, const TensorBuffer &scales, Type fp8,
                 ScaleRounding rounding) {
  if (slices.areContiguous())
    writeContiguousScales(slices, scales, fp8, rounding);
  else
    writeStridedScales(slices, scales, fp8, rounding);
}

/// (Q4): the FP8 data of every slice. They begin at `resultBegin` along the
/// axis of the result.
void writeQuantized(const Slices &slices, const TensorBuffer &scales,
                    const TensorBuffer &result, Value resultBegin) {
  LoopBuilder &b = slices.b;
  Value shift = b.sub(resultBegin, slices.begin);
  slices.forEachElement(
      [&](ArrayRef<Value> indices) {
        return scales.load(b, slices.getScaleIndices(indices));
      },
      [&](ArrayRef<Value> indices, Value scale) {
        SmallVector<Value> to(indices);
        to[slices.axis] = b.add(indices[slices.axis], shift);
        Value x = slices.loadElement(indices);
        result.store(b, quantizeElement(b, x, scale, result.getElementType()),
                     to);
      });
}

/// (Q10): the inverse.
void writeDequantized(const Slices &slices, const TensorBuffer &scales,
                      const TensorBuffer &result, ScaleDirection direction) {
  LoopBuilder &b = slices.b;
  slices.forEachElement(
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
/// offsets. Elements of no group become zero in the data.
void forEachSlices(SliceOpInterface op, OpLowering &l,
                   function_ref<void(const Slices &)> body) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput());
  const int64_t axis = op.getSliceAxes().front();
  if (!op.getOffsets())
    return body(getWholeSlices(b, input, axis));
  Value end = forEachGroup(
      b, l.getBuffer(op.getOffsets()), input.sizes[axis],
      [&](const Group &group) {
        body({b, input, axis, group.begin, group.end, group.number});
      });
  for (Value data : op.getDataResults())
    l.getBuffer(data).fillZero(b, axis, end, l.getBuffer(data).sizes[axis]);
}

} // namespace

template <typename OpTy> static void lowerScale(OpTy op, OpLowering &l) {
  forEachSlices(op, l, [&](const Slices &slices) {
    writeScales(slices, l.getBuffer(op.getScale()), op.getFp8Type(),
                op.getRounding());
  });
}

static void lowerQuantize(QuantizeOp op, OpLowering &l) {
  forEachSlices(op, l, [&](const Slices &slices) {
    writeQuantized(slices, l.getBuffer(op.getScale()),
                   l.getBuffer(op.getResult()), slices.begin);
  });
}

static void lowerDequantize(DequantizeOp op, OpLowering &l) {
  forEachSlices(op, l, [&](const Slices &slices) {
    writeDequantized(slices, l.getBuffer(op.getScale()),
                     l.getBuffer(op.getResult()), op.getDirection());
  });
}

/// The pair of results of jagged slices along `axis`. Data of padded groups
/// start where padding puts them, and padding is zero.
static void quantizeJaggedSlices(LoopBuilder &b, const TensorBuffer &input,
                                 const TensorBuffer &offsets, int64_t axis,
                                 const TensorBuffer &data,
                                 const TensorBuffer &scales,
                                 ScaleRounding rounding) {
  GroupPaddingAttr padding = getGroupPadding(data.type);
  GroupsEnd end = forEachGroup(
      b, offsets, input.sizes[axis], [&](const Group &group, Value start) {
        Slices slices{b, input, axis, group.begin, group.end, group.number};
        writeScales(slices, scales, data.getElementType(), rounding);
        writeQuantized(slices, scales, data, padding ? start : group.begin);
        return padding ? fillGroupPadding(b, data, padding, start,
                                          b.sub(group.end, group.begin))
                       : start;
      });
  data.fillZero(b, axis, padding ? end.cursor : end.position, data.sizes[axis]);
}

template <typename OpTy>
static void lowerDynamicQuantize(OpTy op, OpLowering &l) {
  const TensorBuffer &input = l.getBuffer(op.getInput());
  Value offsets = op.getOffsets();
  for (auto [axis, quantized, scale] :
       llvm::zip_equal(op.getAxes(), op.getQuantized(), op.getScales())) {
    const TensorBuffer &data = l.getBuffer(quantized);
    const TensorBuffer &scales = l.getBuffer(scale);
    // (J6): only the first axis is jagged.
    if (Value ends = std::exchange(offsets, Value())) {
      quantizeJaggedSlices(l.b, input, l.getBuffer(ends), axis, data, scales,
                           op.getRounding());
      continue;
    }
    Slices slices = getWholeSlices(l.b, input, axis);
    writeScales(slices, scales, data.getElementType(), op.getRounding());
    writeQuantized(slices, scales, data, slices.begin);
  }
}

void mlir::fp8moe::populateQuantizePatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerScale<ScaleOp>,
               lowerScale<JaggedScaleOp>, lowerQuantize, lowerDequantize,
               lowerDynamicQuantize<DynamicQuantizeOp>,
               lowerDynamicQuantize<JaggedDynamicQuantizeOp>);
}
