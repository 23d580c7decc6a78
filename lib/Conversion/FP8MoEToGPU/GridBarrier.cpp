//===- GridBarrier.cpp - Words that blocks exchange -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GridBarrier.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// How long other blocks are waited for: two seconds at 2 GHz. Reading this
/// clock, unlike that of the device, costs next to nothing.
static constexpr int64_t kWaitLimitCycles = 4000000000;

/// All threads of the device, in the terms of LLVM's NVPTX backend.
static constexpr StringLiteral kDeviceScope = "device";

static constexpr int64_t kWordBytes = sizeof(int32_t);

//===----------------------------------------------------------------------===//
// Words between blocks
//===----------------------------------------------------------------------===//

Value fp8moe::createRelaxedLoad(KernelBuilder &b, Value pointer) {
  return LLVM::LoadOp::create(b, b.getI32Type(), pointer, kWordBytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false, /*isInvariantGroup=*/false,
                              LLVM::AtomicOrdering::monotonic, kDeviceScope);
}

/// What other threads wrote before the word that this finds, in the order of
/// fences, is visible after it: for less than a fence takes.
static Value createAcquireLoad(KernelBuilder &b, Value pointer) {
  return LLVM::LoadOp::create(b, b.getI32Type(), pointer, kWordBytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false, /*isInvariantGroup=*/false,
                              LLVM::AtomicOrdering::acquire, kDeviceScope);
}

void fp8moe::createRelaxedStore(KernelBuilder &b, Value word, Value pointer) {
  LLVM::StoreOp::create(b, word, pointer, kWordBytes, /*isVolatile=*/false,
                        /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::monotonic, kDeviceScope);
}

/// Loads four words, with `order` (relaxed or acquire) at device scope. LLVM
/// has no atomic vectors; in PTX, every element of one is atomic.
static Value createLoadWords(KernelBuilder &b, Value pointer, StringRef order) {
  SmallVector<Type> words(4, b.getI32Type());
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), words);
  Value loaded =
      LLVM::InlineAsmOp::create(
          b, type, pointer,
          "ld." + order.str() + ".gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
          "=r,=r,=r,=r,l,~{memory}", /*has_side_effects=*/true,
          /*is_align_stack=*/false, LLVM::TailCallKind::None,
          LLVM::AsmDialectAttr(), ArrayAttr())
          .getRes();
  SmallVector<Value> parts;
  for (int64_t i : llvm::seq<int64_t>(4))
    parts.push_back(LLVM::ExtractValueOp::create(b, loaded, i));
  return b.packWords(parts);
}

Value fp8moe::createRelaxedLoadWords(KernelBuilder &b, Value pointer) {
  return createLoadWords(b, pointer, "relaxed");
}

void fp8moe::createDeviceFence(KernelBuilder &b) {
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, kDeviceScope);
}

SmallVector<Value>
fp8moe::createBoundedWait(KernelBuilder &b, ValueRange init,
                          function_ref<Value(ValueRange)> isPending,
                          function_ref<SmallVector<Value>(ValueRange)> body) {
  auto readTime = [&]() -> Value {
    return NVVM::Clock64Op::create(b, b.getI64Type());
  };
  Value begin = readTime();
  auto loop = scf::WhileOp::create(
      b, init.getTypes(), init,
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::ConditionOp::create(b, isPending(carried), carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        Value isLate = b.compare(arith::CmpIPredicate::ugt,
                                 b.sub(readTime(), begin), kWaitLimitCycles);
        b.createIf(isLate, [&] { LLVM::Trap::create(b); });
        scf::YieldOp::create(b, body(carried));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

//===----------------------------------------------------------------------===//
// The barrier
//===----------------------------------------------------------------------===//

//
// Nobody resets the barrier's words between launches, so nothing may be assumed
// of them. Block 0 leads. There is one word `challenge`, and a word `ack` and a
// word `reply` for every other block i.
//
//   begin  block i:  old = reply[i]
//          block 0:  R = a value that is not in any word
//                    challenge = R
//   (each block writes what others must see, and meets at a block barrier)
//   wait   block i:  repeat: ack[i] = challenge    until reply[i] != old
//          block 0:  wait until ack[i] == R, for every i
//                    reply[i] = R, for every i
//
// No block leaves early: only block 0 of this launch writes reply[i], after it
// has seen ack[i] == R. Block i of this launch wrote that R: block 0 saw
// another value in ack[i] when it chose R, and besides R block i only writes
// what it read from `challenge` before R was there, from which R differs as
// well. Block i reads `old` before it writes to ack[i], and R differs from
// `old`, so that it notices. Stores are relaxed. A fence of block i orders what
// was before the barrier ahead of ack[i]; block 0 acquires ack, and its fence
// carries that to reply; block i acquires reply.
//
// While the memory is busy with the first tiles, each trip to it takes two
// microseconds: what is not needed one after the other is asked for at once.
//

static constexpr int64_t kAckOffset = 128;
static constexpr int64_t kReplyOffset =
    kAckOffset + kMaxBarrierBlocks * kWordBytes;
static_assert(kReplyOffset + kMaxBarrierBlocks * kWordBytes ==
              kGridBarrierBytes);

/// Words that a lane of block 0 reads at once, in loads of four.
static constexpr int64_t kWordsPerLane = 8;
static_assert(kMaxBarrierBlocks % (32 * kWordsPerLane) == 0,
              "lanes read beyond the last block, never beyond the words");

void GridBarrier::syncWarp() { NVVM::SyncWarpOp::create(b, b.i32(-1)); }

Value GridBarrier::getWord(int64_t offset, Value index) {
  Value bytes = b.mul(b.zeroExtend(b.getI64Type(), index), kWordBytes);
  return b.offsetBytes(b.offsetBytes(memory, offset), bytes);
}

/// Whether `condition` holds for a word of some block i, in every lane. Words
/// are loaded with `order`, relaxed or acquire.
Value GridBarrier::anyWord(ArrayRef<int64_t> offsets, StringRef order,
                           function_ref<Value(Value)> condition) {
  SmallVector<Value> found = b.createFor(
      b.mul(lane, kWordsPerLane), numBlocks,
      kWordsPerLane * b.getSubgroupSize(), b.i1(false),
      [&](Value first, ValueRange carried) {
        SmallVector<std::pair<Value, Value>> loads;
        for (int64_t offset : offsets)
          for (int64_t i = 0; i < kWordsPerLane; i += 4) {
            Value index = b.add(first, i);
            loads.push_back(
                {index, createLoadWords(b, getWord(offset, index), order)});
          }
        Value any = carried[0];
        for (auto [index, words] : loads)
          for (auto [i, word] : llvm::enumerate(b.unpackWords(words))) {
            Value other = b.add(index, i);
            Value exists =
                b.bitAnd(b.less(other, numBlocks), b.less(b.i32(0), other));
            any = b.bitOr(any, b.bitAnd(exists, condition(word)));
          }
        return SmallVector<Value>{any};
      });
  return NVVM::VoteSyncOp::create(b, b.getI1Type(), b.i32(-1), found[0],
                                  NVVM::VoteSyncKind::any);
}

Value GridBarrier::beginLeading() {
  Value old = createRelaxedLoad(b, memory);
  Value step = createBoundedWait(
                   b, b.i32(1),
                   [&](ValueRange step) {
                     return anyWord({kAckOffset, kReplyOffset}, "relaxed",
                                    [&](Value word) {
                                      return b.equal(word, b.add(old, step[0]));
                                    });
                   },
                   [&](ValueRange step) {
                     return SmallVector<Value>{b.add(step[0], 1)};
                   })
                   .front();
  Value challenge = b.add(old, step);
  b.createIf(b.equal(lane, 0),
             [&] { createRelaxedStore(b, challenge, memory); });
  return challenge;
}

Value GridBarrier::createBegin() {
  return b
      .createIf(
          isLeader(), b.getI32Type(),
          [&] { return SmallVector<Value>{beginLeading()}; },
          [&] {
            return SmallVector<Value>{
                createRelaxedLoad(b, getWord(kReplyOffset, block))};
          })
      .front();
}

void GridBarrier::lead(Value challenge) {
  createBoundedWait(
      b, {},
      [&](ValueRange) {
        return anyWord(kAckOffset, "acquire", [&](Value word) {
          return b.compare(arith::CmpIPredicate::ne, word, challenge);
        });
      },
      [&](ValueRange) { return SmallVector<Value>(); });
  // Each lane has acquired from the blocks that it saw, and releases to others
  // what all lanes acquired.
  syncWarp();
  createDeviceFence(b);
  b.createFor(lane, numBlocks, b.getSubgroupSize(), [&](Value index) {
    createRelaxedStore(b, challenge, getWord(kReplyOffset, index));
  });
}

void GridBarrier::follow(Value old) {
  b.createIf(b.equal(lane, 0), [&] {
    Value ack = getWord(kAckOffset, block);
    createDeviceFence(b);
    createBoundedWait(
        b, {},
        [&](ValueRange) {
          Value challenge = createRelaxedLoad(b, memory);
          Value reply = createAcquireLoad(b, getWord(kReplyOffset, block));
          createRelaxedStore(b, challenge, ack);
          return b.equal(reply, old);
        },
        [&](ValueRange) { return SmallVector<Value>(); });
  });
  syncWarp();
}

void GridBarrier::createWait(Value begun) {
  b.createIf(isLeader(), [&] { lead(begun); }, [&] { follow(begun); });
}
