//===- StageRing.cpp - A ring of stages in shared memory ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/StageRing.h"

using namespace mlir;
using namespace mlir::fp8moe;

void StageRing::createInit(int64_t fullArrivals, int64_t releases) {
  for (int64_t stage : llvm::seq(stages)) {
    Value number = b.i32(stage);
    kernel::MBarrierInitOp::create(b, getFullBarrier(number), fullArrivals);
    kernel::MBarrierInitOp::create(b, getEmptyBarrier(number), releases);
  }
}

RingPosition StageRing::getPosition(Value count) {
  KernelBuilder::Step step(b, "ring_position");
  return {b.remU(count, used), b.bitAnd(b.divU(count, used), 1)};
}

RingPosition StageRing::getNext(RingPosition position) {
  KernelBuilder::Step step(b, "next_stage");
  Value stage = b.add(position.stage, 1);
  Value wraps = b.equal(stage, used);
  return {b.select(wraps, b.i32(0), stage),
          b.select(wraps, b.bitXor(position.parity, 1), position.parity)};
}

RingPosition StageRing::getBefore(RingPosition position, Value count) {
  Value stage = b.sub(position.stage, count);
  Value wraps = b.less(stage, 0);
  return {b.select(wraps, b.add(stage, used), stage),
          b.select(wraps, b.bitXor(position.parity, 1), position.parity)};
}

Value StageRing::inStage(Value stage, Value address) {
  return b.named("shared_stage",
                 kernel::SharedPartOp::create(b, kernel::SharedUse::Stage, name,
                                              address, stage));
}

/// The mbarrier of a stage, which has this number in the ring.
Value StageRing::getBarrier(kernel::SharedUse use, Value stage, Value number) {
  Value address =
      b.offsetBytes(barriers, b.mul(number, nvidia::kMBarrierBytes));
  return b.named(kernel::stringifySharedUse(use),
                 kernel::SharedPartOp::create(b, use, name, address, stage));
}

Value StageRing::getFullBarrier(Value stage) {
  return getBarrier(kernel::SharedUse::Full, stage, stage);
}

Value StageRing::getEmptyBarrier(Value stage) {
  return getBarrier(kernel::SharedUse::Empty, stage, b.add(stage, stages));
}

void StageRing::createWaitEmpty(RingPosition position) {
  KernelBuilder::Step step(b, "wait_empty");
  // In round 0 nobody has released a stage: the phase before the first one
  // counts as complete.
  kernel::WaitParityOp::create(b, getEmptyBarrier(position.stage),
                               b.bitXor(position.parity, 1));
}

void StageRing::createWaitReleased(RingPosition position, Value count) {
  RingPosition before = getBefore(position, count);
  kernel::WaitParityOp::create(b, getEmptyBarrier(before.stage), before.parity);
}

void StageRing::createWaitFull(RingPosition position) {
  KernelBuilder::Step step(b, "wait_full");
  kernel::WaitParityOp::create(b, getFullBarrier(position.stage),
                               position.parity);
}

void StageRing::createRelease(Value stage) {
  KernelBuilder::Step step(b, "release_stage");
  kernel::ArriveOp::create(b, getEmptyBarrier(stage));
}
