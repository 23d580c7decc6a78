//===- SumSplits.cpp - Adds the parts of a contraction --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread takes four neighbours in a row: it loads those of several parts at
// once, which are still in the second-level cache, and adds them in order.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/KernelBuilder.h"
#include "Kernels/Matmul/MatmulLaunch.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Threads of a block.
static constexpr int64_t kThreads = 128;
/// Columns of a thread: 16 bytes of products.
static constexpr int64_t kColumns = 4;
/// Parts that are loaded before the first of them is added.
static constexpr int64_t kPartsInFlight = 8;

namespace {
class SplitSumBuilder {
public:
  SplitSumBuilder(KernelBuilder &b, const SplitSum &sum,
                  const SplitSizes<int64_t> &known);

  void build();

private:
  void sumColumns(Value row, Value column);
  SmallVector<Value> loadProducts(Value element, int64_t split);
  /// Calls `body` for each of the thread's columns that exists, all of them at
  /// once or one by one.
  void forEachInside(Value column,
                     function_ref<void(int64_t first, int64_t count)> body);
  SmallVector<Value> loadAddends(Value pointer, int64_t count);
  void storeResults(Value pointer, ArrayRef<Value> values);
  int64_t getResultBytes() const {
    return sum.resultType.getIntOrFloatBitWidth() / 8;
  }

  KernelBuilder &b;
  const SplitSum &sum;
  Value products, result, addend;
  SplitSizes<Value> sizes;
};
} // namespace

SplitSumBuilder::SplitSumBuilder(KernelBuilder &b, const SplitSum &sum,
                                 const SplitSizes<int64_t> &known)
    : b(b), sum(sum), products(b.getPointer(0, "products")),
      result(b.getPointer(1, "result")) {
  if (sum.addend)
    addend = b.getPointer(2, "addend");
  unsigned parameter = 0;
  sizes = bindSizes(b, known, parameter);
}

void SplitSumBuilder::build() {
  Value perRow = b.ceilDiv(sizes.columns, kColumns);
  Value all = b.mul(sizes.rows, perRow);
  b.forEachWorkTile(b.ceilDiv(all, kThreads), [&](Value workTile) {
    Value index = b.add(b.mul(workTile, kThreads), b.getThread());
    b.createIf(b.less(index, all), [&] {
      sumColumns(b.divU(index, perRow), b.mul(b.remU(index, perRow), kColumns));
    });
  });
}

SmallVector<Value> SplitSumBuilder::loadProducts(Value element, int64_t split) {
  Value part = b.mul(b.mul(sizes.rows, sizes.productRow), split);
  Value words = b.load(
      b.getWordsType(),
      b.offsetBytes(products, b.mul(b.add(part, element), sizeof(float))),
      kColumns * sizeof(float));
  return b.unpackFloats(b.unpackWords(words), b.getF32Type());
}

void SplitSumBuilder::sumColumns(Value row, Value column) {
  Value element = b.add(b.mul(row, sizes.productRow), column);
  SmallVector<Value> sums;
  for (int64_t first = 0; first < sum.splits; first += kPartsInFlight) {
    SmallVector<SmallVector<Value>> parts;
    int64_t end = std::min(sum.splits, first + kPartsInFlight);
    for (int64_t split : llvm::seq(first, end))
      parts.push_back(loadProducts(element, split));
    for (ArrayRef<Value> part : parts) {
      if (sums.empty()) {
        sums.assign(part.begin(), part.end());
        continue;
      }
      for (auto [value, term] : llvm::zip_equal(sums, part))
        value = arith::AddFOp::create(b, value, term);
    }
  }
  forEachInside(column, [&](int64_t first, int64_t count) {
    SmallVector<Value> values(ArrayRef(sums).slice(first, count));
    auto getPlace = [&](Value pointer, Value stride) {
      Value place = b.add(b.add(b.mul(row, stride), column), first);
      return b.offsetBytes(pointer, b.mul(place, getResultBytes()));
    };
    if (addend)
      for (auto [value, term] : llvm::zip_equal(
               values, loadAddends(getPlace(addend, sizes.addendRow), count)))
        value = arith::AddFOp::create(b, value, term);
    storeResults(getPlace(result, sizes.resultRow), values);
  });
}

void SplitSumBuilder::forEachInside(
    Value column, function_ref<void(int64_t first, int64_t count)> body) {
  b.createIf(
      b.lessEqual(b.add(column, kColumns), sizes.columns),
      [&] { body(0, kColumns); },
      [&] {
        for (int64_t i : llvm::seq(kColumns))
          b.createIf(b.less(b.add(column, i), sizes.columns),
                     [&] { body(i, 1); });
      });
}

/// As f32.
SmallVector<Value> SplitSumBuilder::loadAddends(Value pointer, int64_t count) {
  SmallVector<Value> values;
  for (int64_t i : llvm::seq(count)) {
    Value place = b.offsetBytes(pointer, i * getResultBytes());
    if (sum.resultType.isF32()) {
      values.push_back(b.load(b.getF32Type(), place, sizeof(float)));
      continue;
    }
    Value bits = b.zeroExtend(b.getI32Type(), b.load(b.getI16Type(), place, 2));
    values.push_back(b.bitcast(b.getF32Type(), b.widenLowBF16(bits)));
  }
  return values;
}

void SplitSumBuilder::storeResults(Value pointer, ArrayRef<Value> values) {
  if (values.size() == 1 && sum.resultType.isBF16()) {
    Value pair = b.packBF16(values[0], values[0]);
    b.store(b.truncate(b.getI16Type(), pair), pointer, 2);
    return;
  }
  SmallVector<Value> words = b.packFloats(values, sum.resultType);
  Value stored = words.size() == 1 ? words.front() : b.packWords(words);
  b.store(stored, pointer, words.size() * kWordBytes);
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

void fp8moe::launchSplitSum(Location loc, const SplitSum &sum, Value condition,
                            ProgramLowering &lowering) {
  SplitSizes<int64_t> known = getKnownSizes(sum.sizes);
  KernelLaunch launch{"sum_splits",
                      {TypeAttr::get(sum.resultType)},
                      {sum.splits, static_cast<bool>(sum.addend)},
                      kThreads,
                      {sum.products, sum.result},
                      listSizes(sum.sizes)};
  if (sum.addend)
    launch.buffers.push_back(sum.addend);
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, loc);
  OpFoldResult workTiles = size.ceilDiv(
      size.mul(sum.sizes.rows, size.ceilDiv(sum.sizes.columns, kColumns)),
      kThreads);
  lowering.launchKernel(
      loc, launch, workTiles,
      [&](KernelBuilder &b) { SplitSumBuilder(b, sum, known).build(); },
      condition);
}
