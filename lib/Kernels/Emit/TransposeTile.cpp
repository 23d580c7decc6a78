//===- TransposeTile.cpp - A tile transposed by a block -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/TransposeTile.h"
#include "Kernels/Emit/MemoryAccess.h"

using namespace mlir;
using namespace mlir::fp8moe;

static_assert(TransposeTile::kChunkBytes == kVectorBytes);

/// Packs four rows of bytes: two permutations make a word of two bytes of each
/// row, and two more make the results from those words.
static SmallVector<Value> packBytesAcross(KernelBuilder &b,
                                          ArrayRef<Value> chunks) {
  // Bytes i and 4 + i of two words, and their halves.
  constexpr int64_t kLowPairs = 0x5140, kHighPairs = 0x7362;
  constexpr int64_t kLowHalves = 0x5410, kHighHalves = 0x7632;
  SmallVector<SmallVector<Value>> rows;
  for (Value chunk : chunks)
    rows.push_back(b.unpackWords(chunk));
  SmallVector<Value> words;
  for (size_t i : llvm::seq(rows.front().size()))
    for (int64_t pairs : {kLowPairs, kHighPairs}) {
      Value low = b.permuteBytes(rows[0][i], rows[1][i], b.i32(pairs));
      Value high = b.permuteBytes(rows[2][i], rows[3][i], b.i32(pairs));
      for (int64_t halves : {kLowHalves, kHighHalves})
        words.push_back(b.permuteBytes(low, high, b.i32(halves)));
    }
  return words;
}

SmallVector<Value> fp8moe::packAcross(KernelBuilder &b, ArrayRef<Value> chunks,
                                      IntegerType elementType) {
  KernelBuilder::Step step(b, "transpose_bytes");
  if (elementType.getWidth() == 8)
    return packBytesAcross(b, chunks);
  SmallVector<SmallVector<Value>> rows;
  for (Value chunk : chunks)
    rows.push_back(b.splitWords(chunk, elementType));
  SmallVector<Value> words;
  for (size_t i : llvm::seq(rows.front().size())) {
    SmallVector<Value> column;
    for (ArrayRef<Value> row : rows)
      column.push_back(row[i]);
    words.push_back(b.joinElements(column).front());
  }
  return words;
}

TransposeTile::TransposeTile(KernelBuilder &b, int64_t rowsPerThread,
                             int64_t buffers)
    : b(b), rowsPerThread(rowsPerThread), buffers(buffers),
      memory(b.allocateShared(getBytes(), "tile")) {
  assert(b.getNumThreads() % kThreads == 0 && "the mapping is for 256 threads");
}

/// The thread's row group among all of the block.
Value TransposeTile::getRowGroup() {
  Value inPart = b.remU(b.getThread(), kRowGroups);
  if (b.getNumThreads() == kThreads)
    return inPart;
  return b.add(inPart, b.mul(b.divU(b.getThread(), kThreads), kRowGroups));
}

Value TransposeTile::getWriteRow() {
  return b.mul(getRowGroup(), rowsPerThread);
}

Value TransposeTile::getWriteWord() {
  Value word = b.divU(b.getThread(), kRowGroups);
  return b.getNumThreads() == kThreads ? word
                                       : b.remU(word, kThreads / kRowGroups);
}

Value TransposeTile::getFirstWriteWord() {
  Value word = b.mul(b.getUniformSubgroup(), b.getSubgroupSize() / kRowGroups);
  return b.getNumThreads() == kThreads ? word
                                       : b.remU(word, kThreads / kRowGroups);
}

Value TransposeTile::getAddress(Value buffer, Value row, Value word,
                                Value rowGroup) {
  // XOR with a multiple of 4 keeps the four words of a chunk together; a row
  // has as many chunks as 256 threads have row groups.
  static_assert(kRowBytes / kChunkBytes == kRowGroups);
  if (b.getNumThreads() > kThreads)
    rowGroup = b.remU(rowGroup, kRowGroups);
  Value permuted = b.bitXor(word, b.mul(rowGroup, kVectorBytes / kWordBytes));
  Value offset = b.add(b.mul(b.add(b.mul(buffer, getRows()), row), kRowBytes),
                       b.mul(permuted, kWordBytes));
  return b.offsetBytes(memory, offset);
}

Value TransposeTile::loadChunk(Value buffer, Value row, Value chunk,
                               int64_t chunkBytes) {
  int64_t words = chunkBytes / kWordBytes;
  Value source =
      getAddress(buffer, row, b.mul(chunk, words), b.divU(row, rowsPerThread));
  return b.load(VectorType::get(words, b.getI32Type()), source, chunkBytes);
}

Value TransposeTile::getBytePointer(Value buffer, Value row, Value byte) {
  Value word = getAddress(buffer, row, b.divU(byte, kWordBytes),
                          b.divU(row, rowsPerThread));
  return b.offsetBytes(word, b.remU(byte, kWordBytes));
}

void TransposeTile::transpose(Value buffer, ArrayRef<Value> words,
                              Consume consume, int64_t chunkBytes) {
  write(buffer, words);
  forEachChunk(buffer, consume, chunkBytes);
}

void TransposeTile::write(Value buffer, ArrayRef<Value> words) {
  Value address =
      getAddress(buffer, getWriteRow(), getWriteWord(), getRowGroup());
  for (auto [row, word] : llvm::enumerate(words))
    b.storeWord(word, b.offsetBytes(address, row * kRowBytes));
  b.createBarrier();
}

void TransposeTile::forEachChunk(Value buffer, Consume consume,
                                 int64_t chunkBytes) {
  int64_t chunksPerRow = kRowBytes / chunkBytes;
  int64_t chunks = getRows() * chunksPerRow;
  for (int64_t first = 0; first < chunks; first += b.getNumThreads()) {
    Value index = b.add(b.getThread(), first);
    Value row = b.divU(index, chunksPerRow);
    Value chunk = b.remU(index, chunksPerRow);
    consume(row, chunk, loadChunk(buffer, row, chunk, chunkBytes));
  }
}
