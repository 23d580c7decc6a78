//===- QuantizeKernel.h - What quantize schedules share ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEKERNEL_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEKERNEL_H

#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/SegmentBounds.h"
#include "Kernels/Quantize/QuantizeMath.h"
#include "Kernels/Quantize/QuantizeSizes.h"

namespace mlir::fp8moe {

static_assert(kOutputChunk == kVectorBytes, "a thread stores a chunk at once");

/// The two dimensions of a segment.
enum class Along { Rows, Columns };

/// One segment as the schedules see it. Rows are numbered as in the output.
struct SegmentView {
  /// Rows with data, and rows to zero.
  IndexRange rows, zeroRows;
  /// First elements of the segment's buffers; that of the input is moved so
  /// that input and output rows have the same numbers.
  Value input, output, scales;
  /// i1: the numbers of the first rows in input and output differ by a multiple
  /// of an input chunk.
  Value inputAligned;
  /// i1: false for the remainder rows, which are zeroed and have no scales.
  Value hasScales;
};

/// Threads of a block that work on one slice together, `threads` of them, and
/// this thread's number among them.
struct Team {
  Value thread;
  int64_t threads;
};

/// The parts from which all schedules build their kernels.
class QuantizeKernel {
public:
  /// The kernel's pointers and sizes begin at these of its parameters, which
  /// are moved behind them.
  QuantizeKernel(KernelBuilder &b, const AxisQuantizeProblem &problem,
                 unsigned &pointer, unsigned &size);

  KernelBuilder &b;
  const AxisQuantizeProblem &problem;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;

  /// The ends of jagged segments.
  Value getOffsets() { return offsetsPointer; }

  /// Segments, counting the remainder rows of jagged ones.
  Value getNumSegments();
  SegmentView createSegment(Value index);
  /// A jagged segment whose bounds, with the padding of the output, are known.
  SegmentView createSegment(Value index, const Segment &bounds);
  /// The matrices of a segment, accessed in chunks along a dimension.
  Plane getInputPlane(const SegmentView &segment, Along along);
  Plane getOutputPlane(const SegmentView &segment, Along along);

  /// The row from which chunks of a slice are counted: that of the chunk with
  /// the first row where chunks are aligned, else the first row.
  Value getFirstChunk(IndexRange rows);

  /// Number of input chunks that hold `elements` elements.
  int64_t getInputChunks(int64_t elements) const {
    return elements * math.getInputBytes() / kVectorBytes;
  }

  void storeScale(const SegmentView &segment, Value column, Value scale);

  /// Work on one slice by a team: `input` and `output` are accessed along the
  /// rows. Every thread gets the largest magnitude of its own elements.
  Value createSliceMagnitude(const Plane &input, Value column, IndexRange rows,
                             Team team);
  void createSliceQuantize(const Plane &input, const Plane &output,
                           Value column, Value scale, IndexRange rows,
                           Team team);
  void createSliceZeroFill(const Plane &output, Value column, IndexRange rows,
                           Team team);
  /// The largest magnitude of the subgroup's threads.
  Value reduceSubgroup(Value magnitude);
  Team getSubgroupTeam() { return {b.getLane(), b.getSubgroupSize()}; }

private:
  /// The loop of a slice: this thread's chunks, the first of which holds
  /// `rows.low`.
  template <typename Body>
  auto forEachSliceChunk(IndexRange rows, Team team, ValueRange init,
                         Body body);

  /// `inputStart` is the first row in the input less that in the output.
  void setBuffers(SegmentView &view, Value index, Value inputStart);

  Value inputPointer, offsetsPointer, outputPointer, scalesPointer;
};

/// Scales `first` ... of those in shared memory at `memory`, after a barrier.
SmallVector<Value> loadSharedScales(KernelBuilder &b, Value memory, Value first,
                                    int64_t count);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEKERNEL_H
