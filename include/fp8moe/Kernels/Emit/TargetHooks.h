//===- TargetHooks.h - What differs between GPU vendors ---------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A kernel schedule is written once. The few instructions that GPU vendors do
// not share go through this interface; everything else is upstream IR that
// every GPU backend lowers.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_EMIT_TARGETHOOKS_H
#define FP8MOE_KERNELS_EMIT_TARGETHOOKS_H

#include "fp8moe/Target/TargetInfo.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::fp8moe {

/// A bound that is known of products that become FP8.
enum class FP8Products {
  /// Nothing.
  Any,
  /// Each scale is the largest number of the type divided by the largest
  /// magnitude of values that the value is one of, rounded: no product exceeds
  /// that number by more than a rounding error. A product is only a NaN where
  /// its scale is a NaN or zero.
  OfOwnScale,
  /// As above, and scales were rounded down to powers of two: no product
  /// exceeds the largest number.
  OfOwnPowerOfTwo,
};

class TargetHooks {
public:
  /// `target` must outlive the hooks.
  explicit TargetHooks(const TargetInfo &target) : target(target) {}
  virtual ~TargetHooks() = default;

  /// Threads that a shuffle reaches: a warp or a wavefront.
  int64_t getSubgroupSize() const { return target.warpSize; }

  /// Adds what the vendor's compiler should know about a kernel.
  virtual void annotateKernel(gpu::GPUFuncOp kernel) const = 0;

  /// Asks the vendor's compiler to use few enough registers that so many blocks
  /// of the kernel fit a multiprocessor, or as many as its shared memory
  /// leaves, where each has `sharedBytes`.
  virtual void requestResidentBlocks(gpu::GPUFuncOp kernel, int64_t blocks,
                                     int64_t sharedBytes = 0) const = 0;

  /// Whether asking for too many costs little: a kernel that spills gets fewer
  /// blocks, and is assembled again. Elsewhere all kernels are generated again.
  virtual bool takesBackRequests() const = 0;

  /// Whether the hardware converts to `fp8Type`. The flavours of the two
  /// vendors are different types, so a schedule must ask before it converts.
  virtual bool supportsFP8(Type fp8Type) const = 0;

  /// Converts four f32 values to bytes of `fp8Type`, the first in the lowest
  /// byte of the i32 result. Rounds to nearest even, saturates at the largest
  /// finite value, keeps NaN a NaN, and keeps subnormals.
  virtual Value createPackFP8(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                              Type fp8Type) const = 0;

  /// As above, for products of values and their scales, four in each word.
  virtual SmallVector<Value>
  createPackScaledFP8(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                      ArrayRef<Value> scales, Type fp8Type,
                      FP8Products products) const = 0;

  /// The reverse: the four bytes of `word` (i32) as f32, exactly. Any NaN may
  /// come of a NaN.
  virtual SmallVector<Value>
  createUnpackFP8(ImplicitLocOpBuilder &b, Value word, Type fp8Type) const = 0;

  /// Converts two f32 to bf16, the first in the lower half of the i32 result.
  /// Rounds to nearest even.
  virtual Value createPackBF16(ImplicitLocOpBuilder &b, Value low,
                               Value high) const = 0;

  /// Whether two products of bf16 are one instruction. Elsewhere they are
  /// computed in f32 and rounded.
  virtual bool hasPackedBF16Products() const = 0;

  /// The larger of each two of the unsigned 16-bit numbers in two vectors of
  /// four words.
  virtual Value createMaxU16(ImplicitLocOpBuilder &b, Value lhs,
                             Value rhs) const = 0;

  /// The i32 whose byte i is byte n of `low` (0 to 3) or `high` (4 to 7), where
  /// n is the number in bits 4 * i to 4 * i + 3 of `selector`. All are i32, and
  /// the upper half of the selector is zero.
  virtual Value createPermuteBytes(ImplicitLocOpBuilder &b, Value low,
                                   Value high, Value selector) const = 0;

  /// Whether accesses of 16 bytes to global memory may begin at any element.
  bool hasUnalignedVectors() const {
    return target.has(Feature::UnalignedVectors);
  }

  /// Whether numbers that all lanes have in common are computed once for the
  /// subgroup. Then lanes best count in 32 bits from an origin that they share.
  virtual bool hasScalarRegisters() const = 0;

  //===--------------------------------------------------------------------===//
  // Lanes of a converged subgroup
  //===--------------------------------------------------------------------===//

  /// `value` (i32), which is the same in all lanes, so that the vendor's
  /// compiler knows it.
  virtual Value createUniform(ImplicitLocOpBuilder &b, Value value) const = 0;

  /// The lanes where `condition` (i1) holds: bits of an integer that has one
  /// for each lane.
  virtual Value createBallot(ImplicitLocOpBuilder &b,
                             Value condition) const = 0;

  /// i1: whether `condition` (i1) holds in any lane.
  virtual Value createAny(ImplicitLocOpBuilder &b, Value condition) const = 0;

  /// The lanes meet, and see what each other wrote to memory before.
  virtual void createSubgroupBarrier(ImplicitLocOpBuilder &b) const = 0;

  /// The largest `value` (i32, unsigned) of all lanes; null where no
  /// instruction finds it.
  virtual Value createSubgroupMaxU(ImplicitLocOpBuilder &b,
                                   Value value) const = 0;

  /// `value` (i32) of a lane and of lane `lane ^ mask`, in an order that lanes
  /// need not agree on; null where no instruction is better at this than a
  /// shuffle.
  virtual std::pair<Value, Value>
  createExchange(ImplicitLocOpBuilder &b, Value value, int64_t mask) const = 0;

  /// Rests for about a trip to memory, between two looks at what another block
  /// writes, so that those who wait do not keep others from memory.
  virtual void createPause(ImplicitLocOpBuilder &b) const = 0;

  //===--------------------------------------------------------------------===//
  // The grid
  //===--------------------------------------------------------------------===//

  /// The number of blocks of the grid along x (i32); null where a kernel cannot
  /// read it and needs a parameter.
  virtual Value createNumBlocks(ImplicitLocOpBuilder &b) const = 0;

  /// Names in the vendor's backend for the scopes of atomic accesses and
  /// fences: the threads of a block, and all threads of the device.
  virtual StringRef getBlockScope() const = 0;
  virtual StringRef getDeviceScope() const = 0;

protected:
  const TargetInfo &target;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_EMIT_TARGETHOOKS_H
