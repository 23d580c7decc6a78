//===- Launch.cpp - Launches of both axes from tiles that are held --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Program/ClearedWorkspace.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/HeldBothAxes/Kernel.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class HeldBothAxesLaunch : QuantizeLaunch {
public:
  HeldBothAxesLaunch(const BothAxesInstance &instance,
                     ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.columns, lowering),
        columns(instance.columns), along(instance.rows) {
    tile.columns = along.problem.sizes.reduction;
    tile.rowStages = instance.config.rowStages;
    tile.tiles = instance.config.heldTiles;
  }

  /// The result is the condition under which the kernel does the work.
  Value launch(Value when);

private:
  Value createCondition(Value when);

  const QuantizeOperands &columns, &along;
  HeldBothAxesTile tile;
};
} // namespace

/// What copies of lines ask for, that columns are stored in chunks, that lines
/// and tiles are counted in 32 bits, and that an expert has no more tiles than
/// there are blocks, which wait for all of them.
Value HeldBothAxesLaunch::createCondition(Value when) {
  constexpr int64_t kAlignment = nvidia::kTensorMapAddressAlignment;
  Value condition = both(areColumnsAligned(), when);
  for (Value buffer : {buffers.input, along.buffers.output})
    condition = both(condition, plan::AlignedOp::create(b, buffer, kAlignment));
  // Pitches are known to be multiples; experts may lie anywhere.
  using Demand = SizeDemand<OpFoldResult>;
  for (const Demand &demand :
       {Demand{sizes.inSegment, Demand::MultipleOf,
               kAlignment / getInputBytes()},
        Demand{along.sizes.outSegment, Demand::MultipleOf, kAlignment}})
    condition = both(condition, holds(demand));
  HostSize segments(b, sizes.segments), lines(b, sizes.reduction);
  auto isLess = [&](const HostSize &lhs, const HostSize &rhs) {
    return fp8moe::compare(Relation::Less, lhs, rhs).getValue();
  };
  condition =
      both(isLess(segments * maxOf(lines, HostSize(1)), HostSize(kMaxCount)),
           condition);
  HostSize tiles = held_both_axes::countTiles(lines);
  HostSize more = countResident(/*blocks=*/1) + HostSize(1);
  return both(isLess(tiles, more), condition);
}

Value HeldBothAxesLaunch::launch(Value when) {
  Value applies = createCondition(when);
  HostSize segments(b, sizes.segments);
  // The magnitudes of columns, and of how many tiles they are. What is cleared
  // are whole chunks.
  HostSize words = segments * (HostSize(b, sizes.parallel) + HostSize(1));
  constexpr int64_t kChunkWords = kVectorBytes / kWordBytes;
  Value magnitudes = createClearedWorkspace(
      b, lowering,
      ceilDiv(words, HostSize(kChunkWords)) * HostSize(kChunkWords),
      kMagnitudeAlignment, both(applies, isNeeded));

  SmallVector<int64_t> numbers{problem.inputAlignment, problem.outputAlignment,
                               along.problem.outputAlignment, tile.rowStages,
                               tile.tiles};
  SmallVector<OpFoldResult> arguments = addSizes(numbers);
  llvm::append_range(arguments, addSizes(along.sizes, numbers));
  const int64_t threads = tile.getThreads();
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "quantize_held_both_axes",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        KernelSignature signature =
            createRescaledSignature(problem, along.problem, /*moreSizes=*/0);
        signature.hasBlockCount = false;
        signature.threads = threads;
        KernelBuilder kernelBuilder(b.getLoc(), module, name, signature, hooks);
        RescaledKernel kernel =
            createRescaledKernel(kernelBuilder, problem, along.problem);
        buildHeldBothAxes(kernel, tile);
      });
  SmallVector<Value> operands = getRescaledPointers(columns, along, magnitudes);
  for (OpFoldResult argument : arguments)
    operands.push_back(index(argument));
  // All blocks are there at once, as they wait for each other.
  Value blocks = countResident(/*blocks=*/1).getValue(b);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, index(1), index(1)},
                         {threads, 1, 1},
                         held_both_axes::SharedMemory(tile).end, operands,
                         both(applies, isNeeded), /*cluster=*/{},
                         /*cooperative=*/true);
  return applies;
}

namespace {
class HeldBothAxesLowering : public TileLowering<HeldBothAxesTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    return HeldBothAxesLaunch(cast<BothAxesInstance>(instance), lowering)
        .launch(when);
  }
};
} // namespace

const KernelLowering &fp8moe::getHeldBothAxesLowering() {
  static const HeldBothAxesLowering lowering;
  return lowering;
}
