//===- PartialSums.cpp - Sums of long contractions ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each thread stores its accumulators to memory, four at a time, so that the
// 16-byte accesses of a warp are coalesced. No other thread accesses them, so
// they are added in the order of the parts.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/WarpRoles.h"
#include "Kernels/Matmul/Hopper/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Accumulators that are stored together, and their bytes.
static constexpr int64_t kSumsAtOnce = 4;
static constexpr int64_t kBytesAtOnce = kSumsAtOnce * sizeof(float);

static int64_t getConsumerBytes(const HopperMatmulConfig &config) {
  return config.getConsumerRows() * config.columns * sizeof(float);
}

bool fp8moe::hasPartialSums(const GroupedMatmulProblem &problem) {
  return !problem.promoted && problem.getElementBytes() == 1 &&
         (ShapedType::isDynamic(problem.sizes.contraction) ||
          problem.sizes.contraction > kFastSumElements);
}

int64_t fp8moe::getPartialSumsBytes(const HopperMatmulConfig &config) {
  return HopperMatmulConfig::kConsumers * getConsumerBytes(config);
}

PartialSums::PartialSums(GroupedMatmulKernel &kernel, Value consumer)
    : kernel(kernel), b(kernel.b) {
  if (!kernel.partialSums)
    return;
  Value owner =
      b.add(b.mul(kernel.block, HopperMatmulConfig::kConsumers), consumer);
  Value thread = b.bitAnd(b.getThread(), kWarpgroupThreads - 1);
  Value offset = b.add(b.mul(b.widen(owner), getConsumerBytes(kernel.config)),
                       b.mul(thread, kBytesAtOnce));
  base = b.offsetBytes(kernel.partialSums, offset);
}

Value PartialSums::countParts(Value numStages) {
  Value numParts = b.divU(b.sub(numStages, 1), getNumStages());
  // A loop over a known number is unrolled, and each copy would take registers
  // for accumulators of its own.
  return ShapedType::isStatic(kernel.problem.sizes.contraction)
             ? Value(kernel::OpaqueOp::create(b, numParts))
             : numParts;
}

/// Returns the address of the thread's sums from `number` on.
Value PartialSums::getPlace(size_t rowBlock, int64_t number) {
  int64_t blockBytes = kWgmmaRows * kernel.config.columns * sizeof(float);
  return b.offsetBytes(base, static_cast<int64_t>(rowBlock) * blockBytes +
                                 number * sizeof(float) * kWarpgroupThreads);
}

void PartialSums::add(ArrayRef<Value> accumulators, Value isFirst) {
  KernelBuilder::Step step(b, "add_partial_sums");
  auto forEachPlace = [&](function_ref<void(Value, ArrayRef<Value>)> use) {
    for (auto [rowBlock, block] : llvm::enumerate(accumulators)) {
      SmallVector<Value> sums = unpackAccumulators(b, block);
      for (size_t i = 0; i < sums.size(); i += kSumsAtOnce)
        use(getPlace(rowBlock, i), ArrayRef(sums).slice(i, kSumsAtOnce));
    }
  };
  auto store = [&](Value place, ArrayRef<Value> sums) {
    b.store(b.packWords(b.packFloats(sums, b.getF32Type())), place,
            kBytesAtOnce);
  };
  // Adding here, to what was loaded, would take more registers than there are.
  b.createIf(
      isFirst, [&] { forEachPlace(store); },
      [&] {
        forEachPlace([&](Value place, ArrayRef<Value> sums) {
          kernel::AddFloatsOp::create(b, place, sums);
        });
      });
}

Value PartialSums::addStored(Value accumulators, size_t rowBlock) {
  KernelBuilder::Step step(b, "load_partial_sums");
  SmallVector<Value> sums = unpackAccumulators(b, accumulators);
  for (size_t i = 0; i < sums.size(); i += kSumsAtOnce) {
    Value words = b.load(b.getWordsType(), getPlace(rowBlock, i), kBytesAtOnce);
    for (auto [sum, term] :
         llvm::zip_equal(MutableArrayRef(sums).slice(i, kSumsAtOnce),
                         b.unpackFloats(b.unpackWords(words), b.getF32Type())))
      sum = arith::AddFOp::create(b, sum, term);
  }
  return packAccumulators(b, sums);
}

void PartialSums::addTo(MutableArrayRef<Value> accumulators, Value numParts) {
  SmallVector<Value> own(accumulators);
  SmallVector<Value> sums = b.createIf(
      b.isNonZero(numParts),
      [&] {
        SmallVector<Value> sums;
        for (auto [rowBlock, accumulators] : llvm::enumerate(own))
          sums.push_back(addStored(accumulators, rowBlock));
        return sums;
      },
      [&] { return own; });
  llvm::copy(sums, accumulators.begin());
}
