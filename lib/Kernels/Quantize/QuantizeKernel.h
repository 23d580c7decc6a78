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

/// The dimension of a segment that an access goes along.
enum class Along { Rows, Columns };

/// One segment as the schedules see it. Rows are numbered as in the output.
struct SegmentView {
  /// Rows with data, and rows that the output has to zero.
  IndexRange rows, zeroRows;
  /// Addresses of the segment's first elements. `input` is offset so that input
  /// and output rows have the same numbers.
  Value input, output, scales;
  /// i1: the segment's first rows in input and output have indices that differ
  /// by a multiple of an input chunk.
  Value inputAligned;
  /// i1: false for the remainder rows, which are zeroed and have no scales.
  Value hasScales;
};

/// A group of `threads` threads of a block that quantizes one slice, and this
/// thread's index in the group.
struct Team {
  Value thread;
  int64_t threads;
};

/// Building blocks of all quantize schedules.
class QuantizeKernel {
public:
  /// The problem's pointers and sizes are the kernel's parameters from
  /// `pointer` and `size` on. Both are advanced past them.
  QuantizeKernel(KernelBuilder &b, const AxisQuantizeProblem &problem,
                 unsigned &pointer, unsigned &size);

  KernelBuilder &b;
  const AxisQuantizeProblem &problem;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;

  /// Returns the address of the end rows of jagged segments.
  Value getOffsets() { return offsetsPointer; }

  /// Returns the number of segments. For jagged ones, the remainder rows count
  /// as one more.
  Value getNumSegments();
  SegmentView createSegment(Value index);
  /// Creates a jagged segment from its bounds, which include the output
  /// padding.
  SegmentView createSegment(Value index, const Segment &bounds);
  /// Return the matrices of a segment for accesses in chunks along one
  /// dimension.
  Plane getInputPlane(const SegmentView &segment, Along along);
  Plane getOutputPlane(const SegmentView &segment, Along along);

  /// Returns the row at which a slice's first chunk begins. Where chunks must
  /// be aligned, it is rounded down to a multiple of a chunk.
  Value getFirstChunk(IndexRange rows);

  /// Returns the number of input chunks that hold `elements` elements.
  int64_t getInputChunks(int64_t elements) const {
    return elements * math.getInputBytes() / kVectorBytes;
  }

  void storeScale(const SegmentView &segment, Value column, Value scale);

  /// Operations of a team on one slice. `input` and `output` are accessed along
  /// rows. createSliceMagnitude returns to each thread the amax of its own
  /// elements.
  Value createSliceMagnitude(const Plane &input, Value column, IndexRange rows,
                             Team team);
  void createSliceQuantize(const Plane &input, const Plane &output,
                           Value column, Value scale, IndexRange rows,
                           Team team);
  void createSliceZeroFill(const Plane &output, Value column, IndexRange rows,
                           Team team);
  /// Returns the largest magnitude of the subgroup's threads.
  Value reduceSubgroup(Value magnitude);
  Team getSubgroupTeam() { return {b.getLane(), b.getSubgroupSize()}; }

private:
  /// Loops over this thread's chunks of a slice. The team's first chunk holds
  /// `rows.low`.
  template <typename Body>
  auto forEachSliceChunk(IndexRange rows, Team team, ValueRange init,
                         Body body);

  /// `inputStart` is the segment's first row in the input minus that in the
  /// output.
  void setBuffers(SegmentView &view, Value index, Value inputStart);

  Value inputPointer, offsetsPointer, outputPointer, scalesPointer;
};

/// Loads `count` scales, from `first` on, from shared memory at `memory`.
/// Requires a barrier after the scales were stored.
SmallVector<Value> loadSharedScales(KernelBuilder &b, Value memory, Value first,
                                    int64_t count);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEKERNEL_H
