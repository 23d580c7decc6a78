//===- Magnitudes.cpp - Scales of columns, from all blocks ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"

#include "FP8MoEToGPU/Common/AtomicWords.h"
#include "FP8MoEToGPU/NVIDIA/BoundedWait.h"
#include "FP8MoEToGPU/NVIDIA/DeviceMemory.h"
#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"
#include "fp8moe/Conversion/F32Bits.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::held_both_axes;

static constexpr int64_t kThreads = HeldBothAxesTile::kMagnitudeThreads;
/// Words, or vectors, that a thread has on their way at once.
static constexpr int64_t kWordsAtOnce = 8, kVectorsAtOnce = 4;

namespace {
class MagnitudesBuilder {
public:
  MagnitudesBuilder(Kernel &kernel, Value warp)
      : kernel(kernel), b(kernel.b), math(kernel.operands.columns.math),
        thread(b.add(b.mul(warp, nvidia::kWarpThreads), kernel.lane)),
        isFirst(b.equal(thread, 0)) {}

  void build();

private:
  /// The role's threads meet; teams of lines have the barriers before.
  void meet() {
    createNamedBarrier(b, b.i32(kernel.tile.getTeams() + 1), kThreads);
  }
  /// `indices` of the columns in steps of all threads, `atOnce` of them.
  void forEachBatch(int64_t count, int64_t atOnce,
                    function_ref<void(ArrayRef<Value>)> body);
  Value getCombinedTiles(const Tile &tile) {
    return b.offsetBytes(kernel.combinedTiles, b.mul(tile.segment, kWordBytes));
  }
  void combine(const Tile &tile);
  void waitForSegment(const Tile &tile);
  void createScales(const Tile &tile);

  Kernel &kernel;
  KernelBuilder &b;
  QuantizeMath &math;
  Value thread, isFirst;
};
} // namespace

void MagnitudesBuilder::build() {
  // The parity of tiles.
  kernel.forEachTile(b.i32(0), [&](const Tile &tile, ValueRange carried) {
    createBarrierWait(b, kernel.getLinesDone(), carried[0]);
    combine(tile);
    waitForSegment(tile);
    createScales(tile);
    createArrive(b, kernel.tileRing.getFullBarrier(tile.slot.stage));
    return SmallVector<Value>{b.bitXor(carried[0], 1)};
  });
}

/// What lies behind the last index repeats the first one of the thread.
void MagnitudesBuilder::forEachBatch(int64_t count, int64_t atOnce,
                                     function_ref<void(ArrayRef<Value>)> body) {
  b.createFor(thread, b.i32(count), kThreads * atOnce, [&](Value first) {
    SmallVector<Value> indices;
    for (int64_t i : llvm::seq(atOnce)) {
      Value index = b.add(first, i * kThreads);
      indices.push_back(b.select(b.less(index, count), index, first));
    }
    body(indices);
  });
}

void MagnitudesBuilder::combine(const Tile &tile) {
  constexpr int64_t kChunk = HeldBothAxesTile::kChunk;
  forEachBatch(kernel.getColumns(), kWordsAtOnce, [&](ArrayRef<Value> columns) {
    SmallVector<Value> magnitudes, pointers, others;
    for (Value column : columns) {
      Value place =
          kernel.getCollected(b.remU(column, kChunk), b.divU(column, kChunk));
      magnitudes.push_back(b.load(b.getI32Type(), place, kWordBytes));
      b.store(b.i32(0), place, kWordBytes);
      pointers.push_back(
          kernel.operands.getMagnitude(tile.segment, kernel.widen(column)));
    }
    for (Value pointer : pointers)
      others.push_back(loadRelaxed(b, pointer));
    for (auto [magnitude, pointer, other] :
         llvm::zip_equal(magnitudes, pointers, others))
      kernel.operands.enlarge(pointer, other, magnitude);
  });
  meet();
  b.createIf(isFirst, [&] {
    createArrive(b, kernel.getMagnitudesFree());
    createDeviceFence(b);
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, getCombinedTiles(tile),
                              b.i32(1), LLVM::AtomicOrdering::monotonic,
                              b.getHooks().getDeviceScope());
  });
}

void MagnitudesBuilder::waitForSegment(const Tile &tile) {
  b.createIf(isFirst, [&] {
    Value pointer = getCombinedTiles(tile);
    createBoundedWait(
        b, WaitClock::GlobalTimer, ValueRange{loadAcquire(b, pointer)},
        [&](ValueRange combined) {
          return b.less(combined[0], kernel.tilesOfSegment);
        },
        [&](ValueRange) {
          return SmallVector<Value>{loadAcquire(b, pointer)};
        });
  });
  meet();
}

void MagnitudesBuilder::createScales(const Tile &tile) {
  constexpr int64_t kWords = kVectorBytes / kWordBytes;
  forEachBatch(
      kernel.getColumns() / kWords, kVectorsAtOnce,
      [&](ArrayRef<Value> indices) {
        SmallVector<Value> loaded;
        for (Value index : indices)
          loaded.push_back(createRelaxedLoadWords(
              b, kernel.operands.getMagnitude(
                     tile.segment, kernel.widen(b.mul(index, kWords)))));
        for (auto [index, words] : llvm::zip_equal(indices, loaded)) {
          SmallVector<Value> scales, exponents;
          for (Value magnitude : b.unpackWords(words)) {
            scales.push_back(math.createScale(magnitude));
            Value bits = b.bitcast(b.getI32Type(), scales.back());
            exponents.push_back(b.truncate(
                b.getI8Type(), b.shiftRight(bits, f32::kMantissaBits)));
          }
          b.store(b.joinElements(exponents).front(),
                  b.offsetBytes(kernel.getExponents(tile.slot.stage),
                                b.mul(index, kWords)),
                  kWordBytes);
          b.createIf(tile.isFirst, [&, index = index] {
            for (auto [i, scale] : llvm::enumerate(scales)) {
              Value column = b.add(b.mul(index, kWords), i);
              kernel.operands.columns.storeScale(tile.view,
                                                 kernel.widen(column), scale);
            }
          });
        }
      });
}

void held_both_axes::buildMagnitudes(Kernel &kernel, Value warp) {
  MagnitudesBuilder(kernel, warp).build();
}
