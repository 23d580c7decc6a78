//===- MemoryAccess.cpp - 16-byte accesses with scalar edges --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/MemoryAccess.h"
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
  return b.named("is_aligned", vectorizable);
}

bool Plane::isContiguous() const { return matchPattern(vectorStride, m_One()); }

/// createElementPointer of a whole chunk.
static Value createChunkPointer(KernelBuilder &b, const Plane &plane,
                                Value index, Value other) {
  if (!plane.isNear)
    return createElementPointer(b, plane, index, other);
  auto countBytes = [&](Value number, Value stride) {
    return b.mul(b.narrow(number), b.mul(b.narrow(stride), plane.elementBytes));
  };
  Value bytes = b.add(countBytes(index, plane.vectorStride),
                      countBytes(other, plane.otherStride));
  return b.offsetBytes(plane.base, b.widen(bytes));
}

Value fp8moe::createElementPointer(KernelBuilder &b, const Plane &plane,
                                   Value index, Value other) {
  Value element =
      b.add(b.mul(index, plane.vectorStride), b.mul(other, plane.otherStride));
  return b.named("element",
                 b.offsetBytes(plane.base, b.mul(element, plane.elementBytes)));
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
  return b.narrow(distance);
}

/// Whether `chunks` whole chunks from `first` on are inside of `range` and may
/// be accessed as vectors.
static Value isWhole(KernelBuilder &b, const Plane &plane, Value first,
                     int64_t chunks, IndexRange range) {
  Value inside = b.bitAnd(
      b.lessEqual(range.low, first),
      b.lessEqual(b.add(first, chunks * plane.getChunk()), range.high));
  return b.named("is_whole", b.bitAnd(plane.vectorizable, inside));
}

/// Whether `range` has as many elements as a chunk.
static Value hasChunk(KernelBuilder &b, const Plane &plane, IndexRange range) {
  return b.lessEqual(b.add(range.low, plane.getChunk()), range.high);
}

/// Returns `first`, clamped so that the whole chunk lies in `range`, which
/// holds at least one chunk.
static Value moveInside(KernelBuilder &b, const Plane &plane, Value first,
                        IndexRange range) {
  return b.clamp(first, range.low, b.sub(range.high, plane.getChunk()));
}

/// The 16 bytes of `words` as a ring that begins `offset` bytes later.
static Value rotateWords(KernelBuilder &b, Value words, Value offset) {
  return createWordsAt(b, words, words, offset);
}

/// loadChunks where chunks may begin anywhere, of a range that has a whole one:
/// what is loaded lies inside, and is rotated into its place.
static SmallVector<Value> loadMovedChunks(KernelBuilder &b, const Plane &plane,
                                          Value first, int64_t chunks,
                                          ValueRange others, IndexRange range) {
  SmallVector<Value> starts, offsets, loaded;
  for (int64_t chunk : llvm::seq(chunks)) {
    Value begin = b.add(first, chunk * plane.getChunk());
    Value start = moveInside(b, plane, begin, range);
    Value distance = b.narrow(b.mul(b.sub(begin, start), plane.elementBytes));
    starts.push_back(start);
    offsets.push_back(b.bitAnd(distance, kVectorBytes - 1));
  }
  for (Value other : others)
    for (auto [start, offset] : llvm::zip_equal(starts, offsets)) {
      Value words =
          b.load(b.getWordsType(), createElementPointer(b, plane, start, other),
                 plane.vectorAlignment, /*readOnly=*/true);
      loaded.push_back(rotateWords(b, words, offset));
    }
  return loaded;
}

/// The words with `element`, zero-extended to an i32, behind the elements that
/// they have; the first one leaves them.
static SmallVector<Value> pushElement(KernelBuilder &b, ValueRange words,
                                      Value element, int64_t bits) {
  SmallVector<Value> row(words);
  row.push_back(element);
  if (bits == kWordBits)
    return SmallVector<Value>(llvm::drop_begin(row));
  SmallVector<Value> pushed;
  for (size_t i : llvm::seq(words.size()))
    pushed.push_back(LLVM::FshrOp::create(b, row[i + 1], row[i], b.i32(bits)));
  return pushed;
}

/// loadChunks element by element: a loop, so that what is not expected takes no
/// registers. It loads one element of each chunk at a time, or a word of them.
static SmallVector<Value> loadInLoop(KernelBuilder &b, const Plane &plane,
                                     Value first, int64_t chunks,
                                     ValueRange others, IndexRange range,
                                     bool wordByWord) {
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  const int64_t step = wordByWord ? kWordBytes / plane.elementBytes : 1;
  Value last = b.sub(range.high, 1);
  auto loadStep = [&](Value begin, Value other) {
    KernelBuilder::Step named(b, "load_word");
    SmallVector<Value> elements;
    for (int64_t i : llvm::seq(step)) {
      Value index = b.clamp(b.add(begin, i), range.low, last);
      elements.push_back(b.load(getElementType(b, plane),
                                createElementPointer(b, plane, index, other),
                                plane.elementBytes, /*readOnly=*/true));
    }
    return wordByWord ? b.joinElements(elements).front()
                      : b.zeroExtend(b.getI32Type(), elements.front());
  };
  SmallVector<Value> none(kWords * chunks * others.size(), b.i32(0));
  SmallVector<Value> words = b.createRareFor(
      first, b.add(first, plane.getChunk()), step, none,
      [&](Value begin, ValueRange carried) {
        SmallVector<Value> next;
        for (Value other : others)
          for (int64_t chunk : llvm::seq(chunks)) {
            Value pushed =
                loadStep(b.add(begin, chunk * plane.getChunk()), other);
            llvm::append_range(
                next, pushElement(b, carried.slice(next.size(), kWords), pushed,
                                  8 * plane.elementBytes * step));
          }
        return next;
      });
  SmallVector<Value> loaded;
  for (size_t i = 0; i < words.size(); i += kWords)
    loaded.push_back(b.packWords(ArrayRef(words).slice(i, kWords)));
  return loaded;
}

/// Loads chunks of ranges that are shorter than a chunk.
static SmallVector<Value> loadFewElements(KernelBuilder &b, const Plane &plane,
                                          Value first, int64_t chunks,
                                          ValueRange others, IndexRange range) {
  SmallVector<Value> loaded;
  for (Value other : others)
    for (int64_t chunk : llvm::seq(chunks))
      llvm::append_range(
          loaded, loadInLoop(b, plane, b.add(first, chunk * plane.getChunk()),
                             /*chunks=*/1, other, range, /*wordByWord=*/false));
  return loaded;
}

SmallVector<Value> fp8moe::loadChunks(KernelBuilder &b, const Plane &plane,
                                      Value first, int64_t chunks,
                                      ValueRange others, IndexRange range) {
  KernelBuilder::Step step(b, "load_chunks");
  auto loadVectors = [&] {
    SmallVector<Value> loaded;
    for (Value other : others) {
      KernelBuilder::Step step(b, "load_line");
      Value pointer = createChunkPointer(b, plane, first, other);
      for (int64_t chunk : llvm::seq(chunks))
        loaded.push_back(b.load(b.getWordsType(),
                                b.offsetBytes(pointer, chunk * kVectorBytes),
                                plane.vectorAlignment, /*readOnly=*/true));
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
      indices.push_back(b.widenSigned(index));
    }
    for (Value other : others) {
      KernelBuilder::Step step(b, "load_elements");
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
  auto loadParts = [&] {
    if (!plane.isUnaligned())
      return plane.savesRegisters
                 ? loadInLoop(b, plane, first, chunks, others, range,
                              /*wordByWord=*/true)
                 : loadElements();
    return b.createIf(
        b.bitAnd(plane.vectorizable, hasChunk(b, plane, range)),
        [&] { return loadMovedChunks(b, plane, first, chunks, others, range); },
        [&] {
          return loadFewElements(b, plane, first, chunks, others, range);
        });
  };
  return b.createIf(isWhole(b, plane, first, chunks, range), loadVectors,
                    loadParts);
}

/// storeChunk where accesses may begin anywhere, of a chunk that `range` cuts:
/// its bytes in parts, each at most half as large as the one before.
static void storeParts(KernelBuilder &b, const Plane &plane, Value first,
                       Value other, Value words, IndexRange range) {
  Value start = b.maxS(first, range.low);
  Value end = b.minS(b.add(first, plane.getChunk()), range.high);
  b.createIf(b.less(start, end), [&] {
    auto getBytes = [&](Value elements) {
      return b.narrow(b.mul(elements, plane.elementBytes));
    };
    Value bytes = getBytes(b.sub(end, start));
    Value dropped = getBytes(b.sub(start, first));
    Value kept = b.createIf(
        b.equal(dropped, 0), [&] { return words; },
        [&] { return rotateWords(b, words, dropped); });
    SmallVector<Value> row = b.unpackWords(kept);
    Value pointer = createElementPointer(b, plane, start, other);
    for (int64_t part = kVectorBytes / 2; part >= plane.elementBytes;
         part /= 2) {
      Value isStored = b.isNonZero(b.bitAnd(bytes, part));
      b.createIf(isStored, [&] {
        Value value = row[0];
        if (part > kWordBytes)
          value = b.splitHalves(b.packWords(row)).first;
        else
          value = b.truncate(b.getIntegerType(8 * part), value);
        b.store(value, pointer, plane.elementBytes);
      });
      pointer = b.offsetBytes(pointer, b.widen(b.bitAnd(bytes, part)));
      if (part > kWordBytes)
        row = {b.select(isStored, row[2], row[0]),
               b.select(isStored, row[3], row[1]), row[2], row[3]};
      else if (part == kWordBytes)
        row[0] = b.select(isStored, row[1], row[0]);
      else
        row[0] = b.select(isStored, b.shiftRight(row[0], 8 * part), row[0]);
    }
  });
}

void fp8moe::storeChunk(KernelBuilder &b, const Plane &plane, Value first,
                        Value other, Value words, IndexRange range) {
  KernelBuilder::Step step(b, "store_chunk");
  auto storeVector = [&] {
    b.store(words, createChunkPointer(b, plane, first, other),
            plane.vectorAlignment);
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
  auto storeCut = [&] {
    if (plane.isUnaligned())
      b.createIf(
          plane.vectorizable,
          [&] { storeParts(b, plane, first, other, words, range); },
          storeElements);
    else
      storeElements();
  };
  b.createIf(isWhole(b, plane, first, 1, range), storeVector, storeCut);
}

/// The part of so many bytes (1, 2, 4 or 8) at a multiple of these in a chunk.
static Value extractBytes(KernelBuilder &b, ValueRange words, Value offset,
                          int64_t bytes) {
  auto pick = [&](int64_t bit, Value ifSet, Value otherwise) {
    return b.select(b.equal(b.bitAnd(offset, bit), 0), otherwise, ifSet);
  };
  Value low = pick(8, words[2], words[0]), high = pick(8, words[3], words[1]);
  if (bytes > kWordBytes)
    return b.packWords({low, high});
  Value word = pick(kWordBytes, high, low);
  if (bytes == kWordBytes)
    return word;
  Value bits = b.mul(b.bitAnd(offset, kWordBytes - 1), 8);
  return b.truncate(b.getIntegerType(8 * bytes), b.shiftRight(word, bits));
}

void fp8moe::storeBytes(KernelBuilder &b, Value pointer, Value words, Value low,
                        Value high) {
  KernelBuilder::Step step(b, "store_bytes");
  SmallVector<Value> row = b.unpackWords(words);
  Value offset = low;
  auto storePart = [&](Value isStored, int64_t bytes) {
    b.createIf(isStored, [&] {
      b.store(extractBytes(b, row, offset, bytes),
              b.offsetBytes(pointer, b.widen(offset)), bytes);
    });
    offset = b.select(isStored, b.add(offset, bytes), offset);
  };
  auto has = [&](Value value, int64_t bit) {
    return b.isNonZero(b.bitAnd(value, bit));
  };
  // Parts grow while their sum is aligned to more, and then what is left
  // shrinks.
  for (int64_t bytes : {1, 2, 4, 8})
    storePart(
        b.bitAnd(has(offset, bytes), b.lessEqual(b.add(offset, bytes), high)),
        bytes);
  for (int64_t bytes : {8, 8, 4, 2, 1})
    storePart(b.lessEqual(b.add(offset, bytes), high), bytes);
}

Value fp8moe::createByteMask(KernelBuilder &b, Value bytes) {
  Value bits = b.mul(b.clamp(bytes, 0, kWordBytes), 8);
  Value one = b.shiftLeft(b.i64(1), b.widen(bits));
  return b.narrow(b.sub(one, 1));
}

Value fp8moe::createFunnelShift(KernelBuilder &b, ArrayRef<Value> row,
                                Value bits) {
  SmallVector<Value> result;
  for (auto [low, high] : llvm::zip_equal(row.drop_back(), row.drop_front()))
    result.push_back(LLVM::FshrOp::create(b, high, low, bits));
  return b.packWords(result);
}

Value fp8moe::createWordsAt(KernelBuilder &b, Value before, Value words,
                            Value offset) {
  KernelBuilder::Step step(b, "shift_words");
  SmallVector<Value> row = b.unpackWords(before);
  llvm::append_range(row, b.unpackWords(words));
  // Two words or none are dropped from the front, then one or none: the result
  // and one more word behind it are left.
  for (int64_t step : {2, 1}) {
    Value keeps = b.equal(b.bitAnd(offset, step * kWordBytes), 0);
    SmallVector<Value> kept;
    for (size_t i : llvm::seq(row.size() - step))
      kept.push_back(b.select(keeps, row[i], row[i + step]));
    row = kept;
  }
  Value bits = b.mul(b.bitAnd(offset, kWordBytes - 1), 8);
  return createFunnelShift(b, row, bits);
}

void fp8moe::zeroChunk(KernelBuilder &b, const Plane &plane, Value first,
                       Value other, IndexRange range) {
  KernelBuilder::Step step(b, "zero_chunk");
  Value pointer = createElementPointer(b, plane, first, other);
  auto storeVector = [&] {
    b.store(b.zeroWords(), pointer, plane.vectorAlignment);
  };
  // Not a loop: LLVM would make a call of memset of it, which the GPU backends
  // expand to far more code than these few stores.
  auto storeElements = [&] {
    Value zero = arith::ConstantIntOp::create(b, getElementType(b, plane), 0);
    Value low = b.narrow(b.sub(range.low, first));
    Value high = b.narrow(b.sub(range.high, first));
    Value stride = b.mul(plane.vectorStride, plane.elementBytes);
    Value element = pointer;
    for (int64_t i : llvm::seq(plane.getChunk())) {
      KernelBuilder::Step step(b, "zero_element");
      Value inside = b.bitAnd(b.lessEqual(low, i), b.less(b.i32(i), high));
      b.createIf(inside, [&] { b.store(zero, element, plane.elementBytes); });
      element = b.offsetBytes(element, stride);
    }
  };
  // Zeros may be written twice.
  auto storeMoved = [&] {
    Value isCut = b.bitAnd(b.less(range.low, b.add(first, plane.getChunk())),
                           b.less(first, range.high));
    b.createIf(isCut, [&] {
      Value start = moveInside(b, plane, first, range);
      b.store(b.zeroWords(), createElementPointer(b, plane, start, other),
              plane.vectorAlignment);
    });
  };
  auto storeCut = [&] {
    if (plane.isUnaligned())
      b.createIf(b.bitAnd(plane.vectorizable, hasChunk(b, plane, range)),
                 storeMoved, storeElements);
    else
      storeElements();
  };
  b.createIf(isWhole(b, plane, first, 1, range), storeVector, storeCut);
}
