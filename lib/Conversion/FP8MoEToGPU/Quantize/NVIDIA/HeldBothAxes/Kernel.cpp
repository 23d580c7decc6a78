//===- Kernel.cpp - Both axes from tiles that a block holds ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"

#include "FP8MoEToGPU/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::held_both_axes;

static StageRing createRing(KernelBuilder &b, int64_t offset, int64_t stages) {
  return StageRing(b, b.offsetBytes(b.getDynamicShared(), offset), stages);
}

Kernel::Kernel(RescaledKernel &operands, const HeldBothAxesTile &tile)
    : b(operands.getBuilder()), operands(operands), tile(tile), memory(tile),
      bytes(b, operands.columns.problem.fp8Type),
      lineRing(createRing(b, memory.lineRing, tile.rowStages)),
      tileRing(createRing(b, memory.tileRing, tile.tiles)) {
  lane = narrow(b.getLane());
  isFirstLane = b.equal(lane, 0);
  warp = createUniformWarp(b);
  const QuantizeSizes<Value> &sizes = operands.columns.sizes;
  tilesOfSegment =
      b.maxS(b.ceilDiv(narrow(sizes.reduction), HeldBothAxesTile::kLines), 1);
  combinedTiles =
      b.offsetBytes(operands.magnitudes,
                    b.mul(b.mul(sizes.segments, sizes.parallel), kWordBytes));
}

void Kernel::initialize() {
  b.createIf(b.equal(b.getThread(), 0), [&] {
    // One thread of a team releases a line, one of the columns a tile.
    lineRing.createInit(/*fullArrivals=*/1, /*releases=*/1);
    tileRing.createInit(HeldBothAxesTile::kMagnitudeThreads, /*releases=*/1);
    createBarrierInit(b, getLinesDone(),
                      tile.getTeams() * tile.getTeamThreads());
    createBarrierInit(b, getMagnitudesFree(), 1);
    createBarrierInitFence(b);
  });
  const int64_t words = HeldBothAxesTile::kChunk * memory.magnitudePitch;
  b.createFor(
      narrow(b.getThread()), b.i32(words), tile.getThreads(), [&](Value word) {
        b.store(b.i32(0), getShared(memory.magnitudes, word, kWordBytes),
                kWordBytes);
      });
  b.createBarrier();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Value Kernel::getShared(int64_t offset) {
  return b.offsetBytes(b.getDynamicShared(), offset);
}

Value Kernel::getShared(int64_t offset, Value index, int64_t pitch) {
  return b.offsetBytes(getShared(offset), b.mul(index, pitch));
}

Value Kernel::getHeldLine(Value slot, Value line) {
  Value inAll = b.add(b.mul(slot, HeldBothAxesTile::kLines), line);
  return getShared(memory.tiles, inAll, memory.linePitch);
}

Value Kernel::getLineScale(Value slot, Value line) {
  Value inAll = b.add(b.mul(slot, HeldBothAxesTile::kLines), line);
  return getShared(memory.lineScales, inAll, 2 * kWordBytes);
}

void Kernel::storeLineScale(Value slot, Value line, Value scale) {
  Value exponent = RescaledBytes::getExponent(
      b, b.bitcast(b.getI32Type(), scale), RescaledBytes::kNoLine);
  b.store(b.packWords({bytes.createLineTerm(exponent), exponent}),
          getLineScale(slot, line), 2 * kWordBytes);
}

Value Kernel::getExponents(Value slot) {
  return getShared(memory.exponents, slot, getColumns());
}

Value Kernel::getCollected(Value element, Value chunk) {
  Value word = b.add(b.mul(element, memory.magnitudePitch), chunk);
  return getShared(memory.magnitudes, word, kWordBytes);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Tile Kernel::createTile(Value number, RingPosition slot) {
  constexpr int64_t kLines = HeldBothAxesTile::kLines;
  Tile tile;
  Value inSegment = b.remU(number, tilesOfSegment);
  tile.segment = widen(b.divU(number, tilesOfSegment));
  tile.low = b.mul(inSegment, kLines);
  tile.high =
      b.minS(b.add(tile.low, kLines), narrow(operands.columns.sizes.reduction));
  tile.isFirst = b.equal(inSegment, 0);
  tile.view = operands.columns.createSegment(tile.segment);
  tile.slot = slot;
  return tile;
}

SmallVector<Value> Kernel::forEachTile(
    ValueRange init,
    function_ref<SmallVector<Value>(const Tile &, ValueRange)> body) {
  SmallVector<Value> all{b.i32(0), b.i32(0)};
  const size_t position = all.size();
  llvm::append_range(all, init);
  Value tiles = b.mul(narrow(operands.columns.sizes.segments), tilesOfSegment);
  SmallVector<Value> results =
      b.createFor(narrow(b.getBlock()), tiles, b.getNumBlocks(), all,
                  [&](Value number, ValueRange carried) {
                    RingPosition slot{carried[0], carried[1]};
                    SmallVector<Value> more = body(
                        createTile(number, slot), carried.drop_front(position));
                    RingPosition next = tileRing.getNext(slot);
                    SmallVector<Value> all{next.stage, next.parity};
                    llvm::append_range(all, more);
                    return all;
                  });
  return SmallVector<Value>(ArrayRef(results).drop_front(position));
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
/// Registers of a thread of each role.
struct RoleRegisters {
  int64_t lines, magnitudes, columns, loads;
};
} // namespace

static constexpr RoleRegisters kRegisters = {/*lines=*/56, /*magnitudes=*/72,
                                             /*columns=*/104, /*loads=*/40};

/// Those with which all threads are launched: what a multiprocessor has for
/// each of them, in steps of 8.
static int64_t getLaunchRegisters(const HeldBothAxesTile &tile) {
  constexpr int64_t kRegisterFile = 64 * 1024, kStep = 8;
  return kRegisterFile / tile.getThreads() / kStep * kStep;
}

[[maybe_unused]] static bool hasRegisters(const HeldBothAxesTile &tile) {
  int64_t all = tile.getLineThreads() * kRegisters.lines +
                HeldBothAxesTile::kMagnitudeThreads * kRegisters.magnitudes +
                HeldBothAxesTile::kColumnThreads * kRegisters.columns +
                HeldBothAxesTile::kLoadThreads * kRegisters.loads;
  return all <= getLaunchRegisters(tile) * tile.getThreads();
}

void fp8moe::buildHeldBothAxes(RescaledKernel &operands,
                               const HeldBothAxesTile &tile) {
  assert(hasRegisters(tile) && "roles have more registers than there are");
  Kernel kernel(operands, tile);
  kernel.initialize();
  KernelBuilder &b = kernel.b;
  const int64_t launch = getLaunchRegisters(tile);
  auto bind = [&](int64_t threads, int64_t registers,
                  std::function<void(Value)> build) {
    return WarpRole{threads / nvidia::kWarpThreads, [=, &b](Value warp) {
                      createSetRegisters(b, registers, registers > launch);
                      build(warp);
                    }};
  };
  createWarpRoles(
      b, kernel.warp,
      {bind(tile.getLineThreads(), kRegisters.lines,
            [&](Value warp) {
              Value teamWarps = b.i32(tile.getTeams() * tile.getTeamWarps());
              b.createIf(b.less(warp, teamWarps),
                         [&] { buildLines(kernel, warp); });
            }),
       bind(HeldBothAxesTile::kMagnitudeThreads, kRegisters.magnitudes,
            [&](Value warp) { buildMagnitudes(kernel, warp); }),
       bind(HeldBothAxesTile::kColumnThreads, kRegisters.columns,
            [&](Value warp) { buildColumns(kernel, warp); }),
       bind(HeldBothAxesTile::kLoadThreads, kRegisters.loads, [&](Value warp) {
         b.createIf(b.equal(warp, 0), [&] { buildLoads(kernel); });
       })});
}
