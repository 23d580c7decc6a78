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
#include "Kernels/Rows/LowerRows.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class RescaledLaunch : QuantizeLaunch {
public:
  RescaledLaunch(const BothAxesInstance &instance, ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.columns, lowering),
        columns(instance.columns), along(instance.rows),
        tile(cast<RescaledBothAxesTileAttr>(instance.tile)),
        segments(b, sizes.segments), lines(b, sizes.reduction) {
    if (tile.getFused())
      source = RowOperands::get(
          cast<RowOpInterface>(instance.op->getOperand(0).getDefiningOp()),
          lowering);
  }

  /// The result is the condition under which the kernels do the work.
  Value launch(Value when);

private:
  using Body = function_ref<void(RescaledKernel &, ValueRange counts)>;

  /// Launches a kernel that takes `counts` besides the sizes of both
  /// quantizations.
  void launchKernel(StringRef name, int64_t threads, const HostSize &workTiles,
                    ArrayRef<HostSize> counts, ValueRange shared, Value when,
                    Body body);
  /// Creates the workspaces of both kernels, as getRescaledPointers takes them.
  SmallVector<Value> createShared(const HostSize &lineTiles, Value when);

  const QuantizeOperands &columns, &along;
  RescaledBothAxesTileAttr tile;
  HostSize segments, lines;
  /// The operation that computes the input, if the kernels do so.
  std::optional<RowOperands> source;
};
} // namespace

void RescaledLaunch::launchKernel(StringRef name, int64_t threads,
                                  const HostSize &workTiles,
                                  ArrayRef<HostSize> counts, ValueRange shared,
                                  Value when, Body body) {
  SmallVector<int64_t> numbers{problem.jagged,
                               problem.outputPadding,
                               problem.inputAlignment,
                               problem.outputAlignment,
                               along.problem.outputAlignment,
                               threads,
                               tile.getChunks(),
                               tile.getBlocks()};
  SmallVector<OpFoldResult> arguments = addSizes(numbers);
  llvm::append_range(arguments, addSizes(along.sizes, numbers));
  RescaledProblem kernelProblem{problem, along.problem, std::nullopt};
  if (source) {
    kernelProblem.source = source->problem;
    llvm::append_range(numbers, source->problem.getNumbers());
    for (auto member : RowSizes<OpFoldResult>::members())
      if (ShapedType::isDynamic(getStaticSize(source->sizes.*member)))
        arguments.push_back(source->sizes.*member);
  }
  SmallVector<int64_t> knownCounts;
  for (const HostSize &count : counts) {
    arguments.push_back(count.getSize(b));
    knownCounts.push_back(count.getKnown().value_or(ShapedType::kDynamic));
  }
  llvm::append_range(numbers, knownCounts);
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       b.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        KernelSignature signature = createRescaledSignature(
            kernelProblem,
            /*moreSizes=*/llvm::count(knownCounts, ShapedType::kDynamic));
        signature.threads = threads;
        KernelBuilder kernelBuilder(b.getLoc(), module, name, signature,
                                    target);
        RescaledKernel kernel =
            createRescaledKernel(kernelBuilder, kernelProblem);
        unsigned parameter =
            signature.sizes - llvm::count(knownCounts, ShapedType::kDynamic);
        body(kernel, llvm::map_to_vector(knownCounts, [&](int64_t known) {
               return ShapedType::isDynamic(known)
                          ? kernelBuilder.getSize(parameter++)
                          : kernelBuilder.i64(known);
             }));
      });
  SmallVector<Value> operands = getRescaledPointers(
      columns, along, shared,
      source ? ArrayRef<Value>(source->pointers) : ArrayRef<Value>());
  lowering.createLaunch(b.getLoc(), kernel, workTiles.getSize(b), threads,
                        operands, arguments, when);
}

SmallVector<Value> RescaledLaunch::createShared(const HostSize &lineTiles,
                                                Value when) {
  SmallVector<Value> shared{createClearedWorkspace(
      b, lowering, segments * HostSize(b, sizes.parallel), kMagnitudeAlignment,
      when)};
  if (!problem.jagged)
    return shared;
  shared.push_back(
      createWordWorkspace(b, lineTiles * HostSize(kFoundTileBytes / kWordBytes),
                          kMagnitudeAlignment));
  return shared;
}

Value RescaledLaunch::launch(Value when) {
  HostSize allLines = problem.jagged ? lines : segments * lines;
  // The device counts in 32 bits.
  auto isCountable = [&](const HostSize &size) {
    return compare(Relation::Less, size, HostSize(kMaxCount)).getValue();
  };
  Value applies = both(isCountable(allLines), when);
  if (problem.outputPadding > 1)
    applies = both(isCountable(HostSize(b, sizes.extent)), applies);
  if (!lowering.getTarget().has(Feature::UnalignedVectors))
    applies = both(areColumnsAligned(), applies);
  HostSize lineTiles =
      rescaled::countLineTiles(problem.jagged, segments, lines);
  SmallVector<Value> shared = createShared(lineTiles, applies);

  HostSize resident = countResident(tile.getBlocks());
  HostSize linesPerTile = rescaled::countLinesPerTile(allLines, resident);
  HostSize blocks = ceilDiv(allLines, linesPerTile);
  // Blocks find the tiles of all segments, too, however few lines there are.
  if (problem.jagged)
    blocks = maxOf(blocks, minOf(lineTiles, resident));
  launchKernel("quantize_rescaled_lines", tile.getThreads(), blocks,
               {linesPerTile, lineTiles}, shared, applies,
               [&](RescaledKernel &kernel, ValueRange counts) {
                 KernelBuilder &b = kernel.columns.b;
                 buildRescaledLines(kernel, tile,
                                    b.named("lines_per_chunk", counts[0]),
                                    b.named("line_tiles", counts[1]));
               });
  launchKernel("quantize_rescaled_columns", rescaled::kColumnThreads,
               lineTiles * ceilDiv(HostSize(b, sizes.parallel),
                                   HostSize(rescaled::kTile)),
               lineTiles, shared, applies,
               [&](RescaledKernel &kernel, ValueRange counts) {
                 buildRescaledColumns(kernel, counts[0]);
               });
  return applies;
}

namespace mlir::fp8moe {
FailureOr<Value> launchRescaledBothAxes(const KernelInstance &instance,
                                        Value when, ProgramLowering &lowering) {
  return RescaledLaunch(cast<BothAxesInstance>(instance), lowering)
      .launch(when);
}
} // namespace mlir::fp8moe
