//===- Kernel.cpp - One matmul per jagged group ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Kernel.h"
#include "Kernels/Emit/NVIDIA/WarpRoles.h"

using namespace mlir;
using namespace mlir::fp8moe;

ResultBox ResultBox::get(int64_t tileColumns, int64_t resultBytes) {
  int64_t rowBytes = kSwizzleRowBytes;
  while (tileColumns * resultBytes % rowBytes)
    rowBytes /= 2;
  return {rowBytes / resultBytes, rowBytes};
}

GroupedMatmulKernel::GroupedMatmulKernel(KernelBuilder &b,
                                         const GroupedMatmulProblem &problem,
                                         const HopperMatmulConfig &config)
    : b(b), problem(problem), config(config),
      memory(HopperMatmulMemory::get(config)) {
  mapA = b.getTensorMap(0, "a_map");
  mapB = b.getTensorMap(1, "b_map");
  mapResult = b.getTensorMap(2, "result_map");
  unsigned pointer = 0, parameter = 0;
  if (!problem.dense)
    offsets = b.getPointer(pointer++, "group_ends");
  if (problem.hasScalesA)
    scaleA = b.getPointer(pointer++, "scales_a");
  if (problem.hasScalesB)
    scaleB = b.getPointer(pointer++, "scales_b");
  if (problem.isMGrouped())
    result = b.getPointer(pointer++, "result");
  if (loadsAddend(problem))
    addend = b.getPointer(pointer++, "addend");
  if (hasPartialSums(problem))
    partialSums = b.getPointer(pointer++, "partial_sums");
  sizes = bindSizes(b, problem.sizes, parameter);
  // Only a stride of whole groups may need more than 32 bits.
  for (auto member : GroupedMatmulSizes<Value>::members())
    if (member != &GroupedMatmulSizes<Value>::addendGroup)
      sizes.*member = b.narrow(sizes.*member);
  shared = b.getDynamicShared();
  warp = b.named("warp", createUniformWarp(b));
  lane = b.named("lane", b.narrow(b.getLane()));
  block = b.named("block", b.narrow(b.getBlock()));
  numBlocks = b.named("blocks", b.getNumBlocks());
}

Value GroupedMatmulKernel::loadGroupEnd(Value group, Value previous,
                                        Value extent) {
  Value offset = b.mul(b.widen(group), kWordBytes);
  Value end = b.loadWord(b.offsetBytes(offsets, offset), /*readOnly=*/true);
  return b.clamp(end, previous, extent);
}

StageRing GroupedMatmulKernel::getRing() {
  return StageRing(b, "operands", getShared(b.i32(memory.barriers)),
                   config.stages);
}

/// By one thread: mbarriers of the ring. A stage is full when the producer has
/// arrived and its bytes have come, and empty when every warp that reads it has
/// arrived.
static void createRing(GroupedMatmulKernel &kernel) {
  KernelBuilder &b = kernel.b;
  bool isShared = kernel.config.kind == WgmmaSchedule::Cooperative;
  kernel.getRing().createInit(/*fullArrivals=*/1,
                              kWarpgroupWarps * (isShared ? 2 : 1));
  kernel::MBarrierInitFenceOp::create(b);
  for (Value map : {kernel.mapA, kernel.mapB, kernel.mapResult})
    kernel::MapPrefetchOp::create(b, map);
}

void fp8moe::buildHopperGroupedMatmul(KernelBuilder &b,
                                      const GroupedMatmulProblem &problem,
                                      const HopperMatmulConfig &config) {
  GroupedMatmulKernel kernel(b, problem, config);

  b.createIf(b.equal(b.getThread(), 0), [&] { createRing(kernel); });
  if (GroupOrder::isWorthwhile(problem, config))
    GroupOrder(kernel).create();
  b.createBarrier();
  Value warpgroup = b.named("warpgroup", b.divU(kernel.warp, kWarpgroupWarps));
  b.createIf(
      b.named("is_producer", b.equal(warpgroup, 0)),
      [&] { buildMatmulProducer(kernel); },
      [&] {
        buildMatmulConsumer(kernel, b.named("consumer", b.sub(warpgroup, 1)));
      });
}
