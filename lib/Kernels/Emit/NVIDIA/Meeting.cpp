//===- Meeting.cpp - Blocks that keep in step -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/NVIDIA/Meeting.h"

using namespace mlir;
using namespace mlir::fp8moe;

// The word: arrivals of members that are still there in the lower bits, above
// them how many have left, which makes it larger than any number of arrivals
// that is waited for, and so does the topmost bit, once a wait was in vain.
static constexpr int64_t kArrivalBits = 20;
static constexpr int64_t kLeft = int64_t(1) << kArrivalBits;
static constexpr int32_t kInVain = std::numeric_limits<int32_t>::min();
static constexpr int32_t kCounts = ~kInVain;

/// A look at the word takes most of a microsecond on an H100, so this is a
/// tenth of a millisecond: blocks that begin together are not that far apart.
static constexpr int64_t kMostLooks = 128;

Meeting::Meeting(KernelBuilder &b, Value members) : b(b), members(members) {
  word = b.allocateGlobalWord("meeting");
}

/// The word before `operation` puts `number` in.
Value Meeting::update(LLVM::AtomicBinOp operation, Value number) {
  return LLVM::AtomicRMWOp::create(b, operation, word, number,
                                   LLVM::AtomicOrdering::monotonic,
                                   b.getTarget().getDeviceScope());
}

void Meeting::arrive() { update(LLVM::AtomicBinOp::add, b.i32(1)); }

void Meeting::wait(Value count) {
  KernelBuilder::Step step(b, "wait_for_meeting");
  Value all = b.mul(count, members);
  auto isMissing = [&](Value seen) {
    return b.compare(arith::CmpIPredicate::ult, seen, all);
  };
  SmallVector<Value> last = b.createWhile(
      b.i32(0), {b.getI32Type(), b.getI32Type()},
      [&](ValueRange looks) {
        Value seen = b.loadRelaxed(word);
        Value goesOn =
            b.bitAnd(isMissing(seen), b.less(looks.front(), kMostLooks));
        return std::pair(goesOn, SmallVector<Value>{looks.front(), seen});
      },
      [&](ValueRange carried) {
        return SmallVector<Value>{b.add(carried.front(), 1)};
      });
  b.createIf(isMissing(last[1]),
             [&] { update(LLVM::AtomicBinOp::_or, b.i32(kInVain)); });
}

void Meeting::leave(Value arrivals) {
  KernelBuilder::Step step(b, "leave_meeting");
  Value before = update(LLVM::AtomicBinOp::add, b.sub(b.i32(kLeft), arrivals));
  Value left = b.add(b.divU(b.bitAnd(before, kCounts), kLeft), 1);
  // More have left where several launches share the word. To subtract loses
  // nothing that others add meanwhile, as a store would.
  b.createIf(b.equal(b.remU(left, members), 0), [&] {
    update(LLVM::AtomicBinOp::_and, b.i32(kCounts));
    update(LLVM::AtomicBinOp::add, b.mul(members, -kLeft));
  });
}
