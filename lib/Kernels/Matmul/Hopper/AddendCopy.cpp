//===- AddendCopy.cpp - What f32 sums begin with --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A matmul adds f32 sums to its result in memory, so the result must begin as a
// copy of the addend. Mostly both are the same memory: gradients of
// microbatches are summed in place. The kernel compares the addresses.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/AddendCopy.h"
#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Emit/MemoryAccess.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Threads of a block, and blocks for each multiprocessor. With 16 bytes a
/// thread, 32 KiB of loads are in flight on each.
static constexpr int64_t kThreads = 256;
static constexpr int64_t kBlocksPerMultiprocessor = 8;

namespace {
class AddendCopyBuilder {
public:
  AddendCopyBuilder(KernelBuilder &b, const AddendCopySizes<int64_t> &known);

  void build();

private:
  void copyRow(Value group, Value row);

  KernelBuilder &b;
  Value addend, result;
  AddendCopySizes<Value> sizes;
};
} // namespace

AddendCopyBuilder::AddendCopyBuilder(KernelBuilder &b,
                                     const AddendCopySizes<int64_t> &known)
    : b(b), addend(b.getPointer(0, "addend")),
      result(b.getPointer(1, "result")) {
  unsigned parameter = 0;
  sizes = bindSizes(b, known, parameter);
}

/// Equal addresses mean equal strides: the runtime lets an output be in the
/// memory of an input of the same type only.
void AddendCopyBuilder::build() {
  auto getAddress = [&](Value pointer) -> Value {
    return LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  };
  Value isElsewhere = b.compare(arith::CmpIPredicate::ne, getAddress(addend),
                                getAddress(result));
  b.createIf(isElsewhere, [&] {
    b.forEachWorkTile(b.mul(sizes.groups, sizes.rows), [&](Value index) {
      copyRow(b.divU(index, sizes.rows), b.remU(index, sizes.rows));
    });
  });
}

/// Rows begin at multiples of 16 bytes, but may end anywhere.
void AddendCopyBuilder::copyRow(Value group, Value row) {
  auto getBegin = [&](Value pointer, Value rowStride, Value groupStride) {
    Value element = b.add(b.mul(group, groupStride), b.mul(row, rowStride));
    return b.offsetBytes(pointer, b.mul(element, kWordBytes));
  };
  Value from = getBegin(addend, sizes.addendRow, sizes.addendGroup);
  Value to = getBegin(result, sizes.resultRow, sizes.resultGroup);
  auto copy = [&](Value first, Value end, Type type, int64_t bytes) {
    b.createFor(b.add(first, b.getThread()), end, kThreads, [&](Value index) {
      Value offset = b.mul(index, bytes);
      b.store(b.load(type, b.offsetBytes(from, offset), bytes),
              b.offsetBytes(to, offset), bytes);
    });
  };
  constexpr int64_t kVectorWords = kVectorBytes / kWordBytes;
  Value vectors = b.divU(sizes.columns, kVectorWords);
  copy(b.i64(0), vectors, b.getWordsType(), kVectorBytes);
  copy(b.mul(vectors, kVectorWords), sizes.columns, b.getI32Type(), kWordBytes);
}

void fp8moe::launchAddendCopy(Location loc, Value addend, Value result,
                              const AddendCopySizes<OpFoldResult> &sizes,
                              Value multiprocessors, Value condition,
                              ProgramLowering &lowering) {
  AddendCopySizes<int64_t> known = getKnownSizes(sizes);
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, loc);
  OpFoldResult blocks =
      size.mul(multiprocessors, size.constant(kBlocksPerMultiprocessor));
  lowering.launchKernel(
      loc,
      {"copy_addend",
       /*key=*/{},
       /*numbers=*/{},
       kThreads,
       {addend, result},
       listSizes(sizes)},
      blocks, [&](KernelBuilder &b) { AddendCopyBuilder(b, known).build(); },
      condition);
}
