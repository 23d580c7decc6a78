//===- MemoryAccess.cpp - 16-byte accesses with scalar edges --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/MemoryAccess.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

Value fp8moe::createVectorizable(KernelBuilder &b, Value pointer,
                                 int64_t alignment, int64_t elementBytes,
                                 Value vectorStride, ValueRange otherStrides) {
  // A stride that is only known at run time is not expected to be 1: schedules
  // choose the vector dimension among the strides that they know.
  if (!matchPattern(vectorStride, m_One()))
    return b.i1(false);
  Value vectorizable = b.i1(true);
  if (alignment % kVectorBytes != 0) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
    vectorizable = b.equal(b.bitAnd(address, kVectorBytes - 1), 0);
  }
  for (Value stride : otherStrides) {
    Value aligned = b.equal(b.remU(stride, kVectorBytes / elementBytes), 0);
    vectorizable = b.bitAnd(vectorizable, aligned);
  }
  return vectorizable;
}

Value fp8moe::createElementPointer(KernelBuilder &b, const Plane &plane,
                                   Value index, Value other) {
  Value element =
      b.add(b.mul(index, plane.vectorStride), b.mul(other, plane.otherStride));
  return b.offsetBytes(plane.base, b.mul(element, plane.elementBytes));
}

static IntegerType getElementType(KernelBuilder &b, const Plane &plane) {
  return b.getIntegerType(plane.elementBytes * 8);
}

/// `position` relative to `first` in 32 bits. A row may be longer than they
/// count; what is so far away is as good as the end of their range.
static Value createRelative(KernelBuilder &b, Value position, Value first) {
  using Limits = std::numeric_limits<int32_t>;
  Value distance =
      b.clamp(b.sub(position, first), Limits::min(), Limits::max());
  return b.truncate(b.getI32Type(), distance);
}

/// Whether `chunks` whole chunks from `first` on are inside of `range` and may
/// be accessed as vectors.
static Value isWhole(KernelBuilder &b, const Plane &plane, Value first,
                     int64_t chunks, IndexRange range) {
  Value inside = b.bitAnd(
      b.lessEqual(range.low, first),
      b.lessEqual(b.add(first, chunks * plane.getChunk()), range.high));
  return b.bitAnd(plane.vectorizable, inside);
}

SmallVector<Value> fp8moe::loadChunks(KernelBuilder &b, const Plane &plane,
                                      Value first, int64_t chunks,
                                      ValueRange others, IndexRange range) {
  SmallVector<Type> types(chunks * others.size(), b.getWordsType());
  auto loadVectors = [&] {
    SmallVector<Value> loaded;
    for (Value other : others) {
      Value pointer = createElementPointer(b, plane, first, other);
      for (int64_t chunk : llvm::seq(chunks))
        loaded.push_back(b.load(b.getWordsType(),
                                b.offsetBytes(pointer, chunk * kVectorBytes),
                                kVectorBytes, /*readOnly=*/true));
    }
    return loaded;
  };
  // Indices are relative to `first` here, so that 32 bits are enough.
  auto loadElements = [&] {
    Value low = createRelative(b, range.low, first);
    Value last = createRelative(b, b.sub(range.high, 1), first);
    SmallVector<Value> indices, loaded;
    for (int64_t i : llvm::seq(chunks * plane.getChunk())) {
      Value index = b.minS(b.maxS(low, i), last);
      indices.push_back(arith::ExtSIOp::create(b, b.getI64Type(), index));
    }
    for (Value other : others) {
      Plane row = plane;
      row.base = createElementPointer(b, plane, first, other);
      SmallVector<Value> elements;
      for (Value index : indices)
        elements.push_back(b.load(getElementType(b, plane),
                                  createElementPointer(b, row, index, b.i64(0)),
                                  plane.elementBytes, /*readOnly=*/true));
      SmallVector<Value> words = b.joinElements(elements);
      for (int64_t chunk : llvm::seq(chunks))
        loaded.push_back(b.packWords(ArrayRef(words).slice(4 * chunk, 4)));
    }
    return loaded;
  };
  return b.createIf(isWhole(b, plane, first, chunks, range), types, loadVectors,
                    loadElements);
}

void fp8moe::storeChunk(KernelBuilder &b, const Plane &plane, Value first,
                        Value other, Value words, IndexRange range) {
  auto storeVector = [&] {
    b.store(words, createElementPointer(b, plane, first, other), kVectorBytes);
  };
  // The elements shift down by one in every step: unrolled, their conditions
  // would take many registers, and a loop over independent elements would be
  // vectorized to the same effect.
  auto storeElements = [&] {
    auto elementType = getElementType(b, plane);
    int64_t bits = elementType.getWidth();
    Value end = b.minS(range.high, b.add(first, plane.getChunk()));
    auto [low, high] = b.splitHalves(words);
    b.createFor(first, end, 1, {low, high},
                [&](Value index, ValueRange halves) {
                  b.createIf(b.lessEqual(range.low, index), [&] {
                    b.store(b.truncate(elementType, halves[0]),
                            createElementPointer(b, plane, index, other),
                            plane.elementBytes);
                  });
                  Value carried = b.shiftLeft(halves[1], 64 - bits);
                  return SmallVector<Value>{
                      b.bitOr(b.shiftRight(halves[0], bits), carried),
                      b.shiftRight(halves[1], bits)};
                });
  };
  b.createIf(isWhole(b, plane, first, 1, range), storeVector, storeElements);
}

SmallVector<Value> fp8moe::createShiftedWords(KernelBuilder &b,
                                              ArrayRef<Value> before,
                                              ArrayRef<Value> words,
                                              Value shift) {
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  SmallVector<Value> row(before);
  llvm::append_range(row, words);
  // Drops words until the result and one more before it are left: two words or
  // none, then one or none.
  for (int64_t step : {2, 1}) {
    Value isFar = b.compare(arith::CmpIPredicate::ne,
                            b.bitAnd(shift, step * kWordBytes), 0);
    SmallVector<Value> kept;
    for (size_t i : llvm::seq(row.size() - step))
      kept.push_back(b.select(isFar, row[i], row[i + step]));
    row = kept;
  }
  Value bits = b.mul(b.bitAnd(shift, kWordBytes - 1), 8);
  SmallVector<Value> shifted;
  for (int64_t i : llvm::seq(kWords))
    shifted.push_back(LLVM::FshlOp::create(b, row[i + 1], row[i], bits));
  return shifted;
}

void fp8moe::zeroChunk(KernelBuilder &b, const Plane &plane, Value first,
                       Value other, IndexRange range) {
  Value pointer = createElementPointer(b, plane, first, other);
  auto storeVector = [&] { b.store(b.zeroWords(), pointer, kVectorBytes); };
  // Not a loop: LLVM would make a call of memset of it, which the GPU backends
  // expand to far more code than these few stores.
  auto storeElements = [&] {
    Value zero = arith::ConstantIntOp::create(b, getElementType(b, plane), 0);
    Value low = b.truncate(b.getI32Type(), b.sub(range.low, first));
    Value high = b.truncate(b.getI32Type(), b.sub(range.high, first));
    Value stride = b.mul(plane.vectorStride, plane.elementBytes);
    Value element = pointer;
    for (int64_t i : llvm::seq(plane.getChunk())) {
      Value inside = b.bitAnd(b.lessEqual(low, i), b.less(b.i32(i), high));
      b.createIf(inside, [&] { b.store(zero, element, plane.elementBytes); });
      element = b.offsetBytes(element, stride);
    }
  };
  b.createIf(isWhole(b, plane, first, 1, range), storeVector, storeElements);
}
