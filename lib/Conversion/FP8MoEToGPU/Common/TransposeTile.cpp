//===- TransposeTile.cpp - A tile transposed by a block -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Common/TransposeTile.h"
#include "FP8MoEToGPU/Common/MemoryAccess.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kChunksPerRow =
    TransposeTile::kRowBytes / kVectorBytes;

SmallVector<Value> fp8moe::packAcross(KernelBuilder &b, ArrayRef<Value> chunks,
                                      IntegerType elementType) {
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
  static_assert(kChunksPerRow == kRowGroups);
  if (b.getNumThreads() > kThreads)
    rowGroup = b.remU(rowGroup, kRowGroups);
  Value permuted = b.bitXor(word, b.mul(rowGroup, kVectorBytes / kWordBytes));
  Value offset = b.add(b.mul(b.add(b.mul(buffer, getRows()), row), kRowBytes),
                       b.mul(permuted, kWordBytes));
  return b.offsetBytes(memory, offset);
}

Value TransposeTile::loadChunk(Value buffer, Value row, Value chunk) {
  Value source =
      getAddress(buffer, row, b.mul(chunk, kVectorBytes / kWordBytes),
                 b.divU(row, rowsPerThread));
  return b.load(b.getWordsType(), source, kVectorBytes);
}

void TransposeTile::transpose(Value buffer, ArrayRef<Value> words,
                              function_ref<void(Value, Value, Value)> consume) {
  Value address =
      getAddress(buffer, getWriteRow(), getWriteWord(), getRowGroup());
  for (auto [row, word] : llvm::enumerate(words))
    b.store(word, b.offsetBytes(address, row * kRowBytes), kWordBytes);
  b.createBarrier();

  int64_t chunks = getRows() * kChunksPerRow;
  for (int64_t first = 0; first < chunks; first += b.getNumThreads()) {
    Value index = b.add(b.getThread(), first);
    Value row = b.divU(index, kChunksPerRow);
    Value chunk = b.remU(index, kChunksPerRow);
    consume(row, chunk, loadChunk(buffer, row, chunk));
  }
}
