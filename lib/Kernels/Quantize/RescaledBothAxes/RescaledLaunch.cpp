//===- RescaledLaunch.cpp - Launches along both axes by rescaling ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ClearedWorkspace.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/RescaledBothAxes/RescaledBothAxes.h"
#include "Kernels/Quantize/RescaledBothAxes/RescaledTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class RescaledLaunch : QuantizeLaunch {
public:
  RescaledLaunch(const BothAxesInstance &instance, ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.columns, lowering),
        columns(instance.columns), along(instance.rows),
        config(instance.config), segments(b, sizes.segments),
        lines(b, sizes.reduction) {}

  /// The result is the condition under which the kernels do the work.
  Value launch(Value when);

private:
  using Body = function_ref<void(RescaledKernel &, Value count)>;

  /// Launches a kernel that takes `count` besides the sizes of both
  /// quantizations.
  void launchKernel(StringRef name, int64_t threads, const HostSize &workTiles,
                    const HostSize &count, Value magnitudes, Value when,
                    Body body);

  const QuantizeOperands &columns, &along;
  const QuantizeConfig &config;
  HostSize segments, lines;
};
} // namespace

void RescaledLaunch::launchKernel(StringRef name, int64_t threads,
                                  const HostSize &workTiles,
                                  const HostSize &count, Value magnitudes,
                                  Value when, Body body) {
  SmallVector<int64_t> numbers{problem.jagged,
                               problem.outputPadding,
                               problem.inputAlignment,
                               problem.outputAlignment,
                               along.problem.outputAlignment,
                               threads,
                               config.heldChunks,
                               config.residentBlocks};
  SmallVector<OpFoldResult> arguments = addSizes(numbers);
  llvm::append_range(arguments, addSizes(along.sizes, numbers));
  arguments.push_back(count.getSize(builder));
  std::optional<int64_t> knownCount = count.getKnown();
  numbers.push_back(knownCount.value_or(ShapedType::kDynamic));
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        KernelSignature signature = createRescaledSignature(
            problem, along.problem, /*moreSizes=*/!knownCount);
        signature.threads = threads;
        KernelBuilder kernelBuilder(b.getLoc(), module, name, signature, hooks);
        RescaledKernel kernel =
            createRescaledKernel(kernelBuilder, problem, along.problem);
        body(kernel, knownCount ? kernelBuilder.i64(*knownCount)
                                : kernelBuilder.getSize(signature.sizes - 1));
      });
  SmallVector<Value> operands = getRescaledPointers(columns, along, magnitudes);
  lowering.createLaunch(b.getLoc(), kernel, workTiles.getSize(builder), threads,
                        operands, arguments, both(when, isNeeded));
}

Value RescaledLaunch::launch(Value when) {
  HostSize allLines = problem.jagged ? lines : segments * lines;
  // The device counts in 32 bits.
  auto isCountable = [&](const HostSize &size) {
    return fp8moe::compare(Relation::Less, size, HostSize(kMaxCount))
        .getValue();
  };
  Value applies = both(isCountable(allLines), when);
  if (problem.outputPadding > 1)
    applies = both(isCountable(HostSize(b, sizes.extent)), applies);
  if (!lowering.getTarget().has(Feature::UnalignedVectors))
    applies = both(areColumnsAligned(), applies);
  Value magnitudes = createClearedWorkspace(
      b, lowering, segments * HostSize(b, sizes.parallel), kMagnitudeAlignment,
      both(applies, isNeeded));

  HostSize linesPerTile = rescaled::countLinesPerTile(
      allLines, countResident(config.residentBlocks));
  launchKernel("quantize_rescaled_lines", config.threads,
               ceilDiv(allLines, linesPerTile), linesPerTile, magnitudes,
               applies, [&](RescaledKernel &kernel, Value count) {
                 buildRescaledLines(kernel, config, count);
               });

  HostSize lineTiles =
      rescaled::countLineTiles(problem.jagged, segments, lines);
  launchKernel("quantize_rescaled_columns", rescaled::kColumnThreads,
               lineTiles * ceilDiv(HostSize(b, sizes.parallel),
                                   HostSize(rescaled::kTile)),
               lineTiles, magnitudes, applies,
               [&](RescaledKernel &kernel, Value count) {
                 buildRescaledColumns(kernel, count);
               });
  return applies;
}

namespace {
class RescaledBothAxesLowering : public TileLowering<RescaledBothAxesTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    return RescaledLaunch(cast<BothAxesInstance>(instance), lowering)
        .launch(when);
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelLowering &getRescaledBothAxesLowering() {
  static const RescaledBothAxesLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
