//===- Launch.cpp - Launches the whole-column kernel ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Launch.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassInner/Kernel.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassModels.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class SinglePassInnerLaunch : QuantizeLaunch {
public:
  SinglePassInnerLaunch(const QuantizeInstance &instance,
                        ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        groups(instance.config.groups) {}

  Value launch(Value when);

private:
  Value createCondition(const SinglePassInnerTile &tile);
  void launchTile(const SinglePassInnerTile &tile,
                  const single_pass_inner::SharedMemory &memory,
                  Value condition);

  /// That there is room for.
  int64_t groups;
};
} // namespace

/// Whether copies and vectors are aligned, and everything can be counted.
Value SinglePassInnerLaunch::createCondition(const SinglePassInnerTile &tile) {
  int64_t chunkRows = single_pass_inner::kChunkBytes / getInputBytes();
  Value condition = both(
      plan::AlignedOp::create(b, buffers.input, single_pass_inner::kChunkBytes),
      plan::AlignedOp::create(b, buffers.output, chunkRows));
  for (const auto &demand :
       single_pass_inner::getSizeDemands(sizes, getInputBytes()))
    condition = both(condition, holds(demand));
  return both(condition,
              compare(arith::CmpIPredicate::sle, sizes.segments, tile.groups));
}

void SinglePassInnerLaunch::launchTile(
    const SinglePassInnerTile &tile,
    const single_pass_inner::SharedMemory &memory, Value condition) {
  SmallVector<int64_t> numbers{problem.powerOfTwo, tile.cluster, tile.groups,
                               tile.reduceWarps, tile.convertWarps};
  SmallVector<Value> operands{buffers.input, buffers.offsets, buffers.output,
                              buffers.scales};
  for (OpFoldResult argument : addSizes(numbers))
    operands.push_back(index(argument));
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "quantize_single_pass_inner",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildSinglePassInnerQuantize(b.getLoc(), module, name, problem, tile,
                                     memory, hooks);
      });
  Value multiprocessors = plan::DeviceAttrOp::create(
      b, builder.getIndexType(), plan::DeviceAttribute::Multiprocessors);
  Value clusters = b.createOrFold<arith::MinSIOp>(
      b.createOrFold<arith::DivSIOp>(multiprocessors, index(tile.cluster)),
      index(sizes.parallel));
  Value blocks = b.createOrFold<arith::MulIOp>(clusters, index(tile.cluster));
  int64_t threads = tile.getThreads(lowering.getTarget().warpSize);
  SmallVector<int64_t> cluster;
  if (tile.cluster > 1)
    cluster = {tile.cluster, 1, 1};
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, index(1), index(1)},
                         {threads, 1, 1}, memory.end, operands, condition,
                         cluster);
}

Value SinglePassInnerLaunch::launch(Value when) {
  SinglePassInnerTile tile;
  tile.groups = groups;
  Value condition = both(createCondition(tile), both(when, isNeeded));
  Value applies;
  for (int64_t cluster : single_pass_inner::kClusters) {
    tile.cluster = cluster;
    single_pass_inner::SharedMemory memory(
        tile, lowering.getTarget().sharedMemoryPerBlock);
    std::optional<int64_t> bytes = memory.getMaxColumn(tile);
    // No room for so many groups.
    if (!bytes)
      break;
    int64_t most = *bytes / getInputBytes();
    Value isShort = compare(arith::CmpIPredicate::sle, sizes.reduction, most);
    Value isIts = both(condition, isShort);
    condition = both(condition,
                     compare(arith::CmpIPredicate::sgt, sizes.reduction, most));
    if (!isNever(isIts))
      launchTile(tile, memory, isIts);
    applies = applies ? b.createOrFold<arith::OrIOp>(applies, isIts) : isIts;
  }
  assert(applies && "a tile without room for its groups");
  return applies;
}

namespace {
class SinglePassInnerLowering : public TileLowering<SinglePassInnerTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    return SinglePassInnerLaunch(cast<QuantizeInstance>(instance), lowering)
        .launch(when);
  }
};
} // namespace

const KernelLowering &fp8moe::getSinglePassInnerLowering() {
  static const SinglePassInnerLowering lowering;
  return lowering;
}
