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

/// Alignment of magnitudes in bytes: that of what is cleared at once, and more
/// does no harm.
static constexpr int64_t kMagnitudeAlignment = 256;

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
  /// quantizations. `shared` are the magnitudes of columns and, if they are
  /// jagged, tiles that were found.
  void launchKernel(StringRef name, int64_t threads, const HostSize &workTiles,
                    ArrayRef<HostSize> counts, ValueRange shared, Value when,
                    Body body);
  /// Creates the workspaces that both kernels share.
  SmallVector<Value> createShared(const HostSize &lineTiles, Value when);
  Value areColumnsAligned();

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
  KernelLaunch launch{
      name,
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type)},
      {problem.jagged, problem.outputPadding, problem.inputAlignment,
       problem.outputAlignment, along.problem.outputAlignment, threads,
       tile.getChunks(), tile.getBlocks()},
      threads,
      {},
      listSizes(sizes)};
  llvm::append_range(launch.sizes, listSizes(along.sizes));
  // A source has no input; its own first pointer stands there.
  Value input = source ? source->pointers.front() : columns.buffers.input;
  launch.buffers.push_back(input);
  if (problem.jagged)
    launch.buffers.push_back(columns.buffers.offsets);
  launch.buffers.append({columns.buffers.output, columns.buffers.scales, input,
                         along.buffers.output, along.buffers.scales});
  llvm::append_range(launch.buffers, shared);
  if (source) {
    llvm::append_range(launch.buffers, source->pointers);
    llvm::append_range(launch.numbers, source->problem.getNumbers());
    llvm::append_range(launch.sizes, listSizes(source->sizes));
  }
  for (const HostSize &count : counts)
    launch.sizes.push_back(count.getSize(b));
  auto build = [&](KernelBuilder &builder) {
    unsigned pointer = 0, size = 0;
    RescaledKernel kernel{
        QuantizeKernel(builder, problem, pointer, size),
        QuantizeKernel(builder, along.problem, pointer, size),
        builder.getPointer(pointer++, "column_magnitudes"),
        problem.jagged ? builder.getPointer(pointer++, "tiles") : Value(),
        std::nullopt};
    if (source) {
      kernel.source.emplace(builder, source->problem, pointer, size);
      size += countDynamic(source->problem.sizes);
    }
    body(kernel, llvm::map_to_vector(counts, [&](const HostSize &count) {
           std::optional<int64_t> known = count.getKnown();
           return known ? builder.i64(*known) : builder.getSize(size++);
         }));
  };
  lowering.launchKernel(b.getLoc(), launch, workTiles.getSize(b), build, when);
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

/// Whether columns of the result lie whole chunks apart.
Value RescaledLaunch::areColumnsAligned() {
  auto isWhole = [&](OpFoldResult stride) {
    return compare(Relation::Equal,
                   HostSize(b, stride) % HostSize(kVectorBytes), HostSize(0))
        .getValue();
  };
  Value condition = isWhole(sizes.outParallel);
  return problem.jagged ? condition
                        : both(condition, isWhole(sizes.outSegment));
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
