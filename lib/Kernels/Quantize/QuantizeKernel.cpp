//===- QuantizeKernel.cpp - State shared by the quantize schedules --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

QuantizeKernel::QuantizeKernel(KernelBuilder &b,
                               const AxisQuantizeProblem &problem,
                               unsigned &pointer, unsigned &size)
    : b(b), problem(problem),
      math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo) {
  inputPointer = b.getPointer(pointer++, "input");
  if (problem.jagged)
    offsetsPointer = b.getPointer(pointer++, "group_ends");
  if (!problem.scalesOnly)
    outputPointer = b.getPointer(pointer++, "output");
  scalesPointer = b.getPointer(pointer++, "scales");
  sizes = bindSizes(b, problem.sizes, size);
}

Value QuantizeKernel::getNumSegments() {
  // The remainder rows are zeroed and have no scales.
  return problem.jagged && !problem.scalesOnly ? b.add(sizes.segments, 1)
                                               : sizes.segments;
}

SegmentView QuantizeKernel::createSegment(Value index) {
  if (problem.jagged)
    return createSegment(
        index, createSegmentBounds(b, offsetsPointer, index, sizes.segments,
                                   sizes.reduction, problem.outputPadding));
  SegmentView view;
  view.rows = {b.i64(0), sizes.reduction};
  view.zeroRows = {sizes.reduction, sizes.reduction};
  view.hasScales = b.i1(true);
  setBuffers(view, index, b.i64(0));
  return view;
}

SegmentView QuantizeKernel::createSegment(Value index, const Segment &bounds) {
  SegmentView view;
  Value end = b.add(bounds.paddedStart, bounds.length);
  Value isRemainder = b.equal(index, sizes.segments);
  Value paddedEnd = b.add(bounds.paddedStart,
                          b.roundUp(bounds.length, problem.outputPadding));
  view.rows = {bounds.paddedStart, end};
  Value extent = problem.outputPadding > 1 ? sizes.extent : sizes.reduction;
  view.zeroRows = {end, b.select(isRemainder, extent, paddedEnd)};
  view.hasScales = b.equal(isRemainder, 0);
  setBuffers(view, index, b.sub(bounds.start, bounds.paddedStart));
  return view;
}

void QuantizeKernel::setBuffers(SegmentView &view, Value index,
                                Value inputStart) {
  Value inputElement = b.add(b.mul(index, sizes.inSegment),
                             b.mul(inputStart, sizes.inReduction));
  view.input =
      b.offsetBytes(inputPointer, b.mul(inputElement, math.getInputBytes()));
  // Only rows that are contiguous make the start matter; otherwise the pitch
  // already decides.
  view.inputAligned =
      b.equal(b.remU(inputStart, kVectorBytes / math.getInputBytes()), 0);
  if (!problem.scalesOnly)
    view.output = b.offsetBytes(outputPointer, b.mul(index, sizes.outSegment));
  view.scales = b.offsetBytes(
      scalesPointer, b.mul(b.mul(index, sizes.scaleSegment), sizeof(float)));
}

/// Sets how chunks of `plane`, a part of a buffer, are accessed.
static void setVectorizable(KernelBuilder &b, Plane &plane, Value pointer,
                            int64_t alignment, Value segmentStride) {
  if (b.getTarget().has(Feature::UnalignedVectors)) {
    plane.vectorAlignment = plane.elementBytes;
    plane.vectorizable = createVectorizable(
        b, pointer, kVectorBytes, plane.elementBytes, plane.vectorStride, {});
    return;
  }
  plane.vectorizable = createVectorizable(
      b, pointer, alignment, plane.elementBytes, plane.vectorStride,
      {plane.otherStride, segmentStride});
}

Plane QuantizeKernel::getInputPlane(const SegmentView &segment, Along along) {
  Plane plane{segment.input, math.getInputBytes(), sizes.inReduction,
              sizes.inParallel, Value()};
  if (along == Along::Columns)
    std::swap(plane.vectorStride, plane.otherStride);
  setVectorizable(b, plane, inputPointer, problem.inputAlignment,
                  sizes.inSegment);
  if (along == Along::Rows && !plane.isUnaligned())
    plane.vectorizable = b.bitAnd(plane.vectorizable, segment.inputAligned);
  return plane;
}

Plane QuantizeKernel::getOutputPlane(const SegmentView &segment, Along along) {
  Plane plane{segment.output, /*elementBytes=*/1, sizes.outReduction,
              sizes.outParallel, Value()};
  if (along == Along::Columns)
    std::swap(plane.vectorStride, plane.otherStride);
  setVectorizable(b, plane, outputPointer, problem.outputAlignment,
                  sizes.outSegment);
  return plane;
}

Value QuantizeKernel::getFirstChunk(IndexRange rows) {
  return b.getTarget().has(Feature::UnalignedVectors)
             ? rows.low
             : b.bitAnd(rows.low, -kOutputChunk);
}

void QuantizeKernel::storeScale(const SegmentView &segment, Value column,
                                Value scale) {
  KernelBuilder::Step step(b, "store_scale");
  b.createIf(segment.hasScales, [&] {
    Value offset = b.mul(b.mul(column, sizes.scaleParallel), sizeof(float));
    b.storeWord(scale, b.offsetBytes(segment.scales, offset));
  });
}

template <typename Body>
auto QuantizeKernel::forEachSliceChunk(IndexRange rows, Team team,
                                       ValueRange init, Body body) {
  Value first = b.add(getFirstChunk(rows), b.mul(team.thread, kOutputChunk));
  // The chunk that holds `rows.low` begins before an empty range.
  Value end = b.select(b.less(rows.low, rows.high), rows.high, 0);
  return b.createFor(first, end, kOutputChunk * team.threads, init, body);
}

Value QuantizeKernel::createSliceMagnitude(const Plane &input, Value column,
                                           IndexRange rows, Team team) {
  KernelBuilder::Step step(b, "slice_magnitude");
  Value accumulator = forEachSliceChunk(
      rows, team, b.zeroWords(), [&](Value first, Value largest) {
        return math.createAbsMax(
            largest, loadChunks(b, input, first, getInputChunks(kOutputChunk),
                                column, rows));
      });
  return math.createLargest(accumulator);
}

Value QuantizeKernel::reduceSubgroup(Value magnitude) {
  return b.reduceLanes(magnitude, 1,
                       [&](Value lhs, Value rhs) { return b.maxU(lhs, rhs); });
}

void QuantizeKernel::createSliceQuantize(const Plane &input,
                                         const Plane &output, Value column,
                                         Value scale, IndexRange rows,
                                         Team team) {
  KernelBuilder::Step step(b, "quantize_slice");
  SmallVector<Value> scales(kOutputChunk, scale);
  forEachSliceChunk(rows, team, {}, [&](Value first) {
    SmallVector<Value> chunks =
        loadChunks(b, input, first, getInputChunks(kOutputChunk), column, rows);
    storeChunk(b, output, first, column, math.quantizeChunks(chunks, scales),
               rows);
  });
}

void QuantizeKernel::createSliceZeroFill(const Plane &output, Value column,
                                         IndexRange rows, Team team) {
  if (!problem.jagged)
    return;
  forEachSliceChunk(rows, team, {}, [&](Value first) {
    zeroChunk(b, output, first, column, rows);
  });
}

SmallVector<Value> fp8moe::loadSharedScales(KernelBuilder &b, Value memory,
                                            Value first, int64_t count) {
  Value pointer = b.offsetBytes(memory, b.mul(first, sizeof(float)));
  SmallVector<Value> scales;
  for (int64_t i = 0; i < count; i += 4) {
    Value words =
        b.load(b.getWordsType(), b.offsetBytes(pointer, i * sizeof(float)),
               kVectorBytes);
    for (Value word : b.unpackWords(words))
      scales.push_back(b.bitcast(b.getF32Type(), word));
  }
  return scales;
}
