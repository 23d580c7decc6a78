//===- ResidentStripLaunch.cpp - Launches of held strips ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ClearedWorkspace.h"
#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/ResidentStrips/ResidentStripTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::resident_strips;

/// Alignment of the slots in bytes: one of them.
static constexpr int64_t kSlotAlignment = 256;

namespace {
class ResidentStripLaunch : QuantizeLaunch {
public:
  ResidentStripLaunch(const QuantizeInstance &instance,
                      ProgramLowering &lowering)
      : QuantizeLaunch(instance, instance.operands, lowering),
        tile(cast<ResidentStripsTileAttr>(instance.tile)),
        rows(b, sizes.reduction), segments(b, sizes.segments),
        strips(ceilDiv(HostSize(b, sizes.parallel),
                       HostSize(tile.getColumns()))) {}

  Value launch(Value when);

private:
  SymbolRefAttr getKernel(SmallVectorImpl<OpFoldResult> &arguments);
  /// Whether a strip may have several pieces.
  bool mayExchange() const {
    std::optional<int64_t> known = rows.getKnown();
    return !known || *known > getHeldRows(tile);
  }
  Value holds(Relation relation, const HostSize &lhs, const HostSize &rhs) {
    return fp8moe::compare(relation, lhs, rhs).getValue();
  }
  /// Where blocks post magnitudes, cleared where `when` holds and a strip may
  /// have several pieces.
  Value createSlots(Value when);

  ResidentStripsTileAttr tile;
  HostSize rows, segments, strips;
};
} // namespace

SymbolRefAttr
ResidentStripLaunch::getKernel(SmallVectorImpl<OpFoldResult> &arguments) {
  SmallVector<int64_t> numbers{problem.powerOfTwo, problem.jagged,
                               problem.outputPadding, problem.inputAlignment,
                               problem.outputAlignment};
  arguments = addSizes(numbers);
  return lowering.getKernels().getOrBuild(
      "quantize_resident_strips",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type), tile,
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        KernelSignature signature;
        unsigned tensors = 3 + problem.jagged;
        signature.pointers = tensors + mayExchange();
        signature.sizes = countDynamic(problem.sizes);
        signature.threads = countThreads(tile.getColumns());
        KernelBuilder kernelBuilder(b.getLoc(), module, name, signature, hooks);
        QuantizeKernel kernel(kernelBuilder, problem);
        buildResidentStrips(kernel, tile,
                            mayExchange() ? kernelBuilder.getPointer(tensors)
                                          : Value());
      });
}

Value ResidentStripLaunch::createSlots(Value when) {
  HostSize slots = countSlots(tile, problem.jagged, segments, rows) * strips;
  Value mayBeDivided = holds(Relation::More, rows, HostSize(getHeldRows(tile)));
  return createClearedWorkspace(
      b, lowering, slots * HostSize(tile.getColumns()), kSlotAlignment,
      both(both(when, mayBeDivided), isNeeded));
}

Value ResidentStripLaunch::launch(Value when) {
  SmallVector<OpFoldResult> arguments;
  SymbolRefAttr kernel = getKernel(arguments);
  HostSize pieces = countAllPieces(tile, problem.jagged, segments, rows);
  HostSize workTiles = pieces * strips;
  HostSize resident = countResident(tile.getBlocks());
  // The device counts in 32 bits, and the pieces of a strip need as many
  // blocks, all of which are resident.
  Value applies = both(holds(Relation::Less, rows, HostSize(kMaxCount)),
                       holds(Relation::Less, workTiles, HostSize(kMaxCount)));
  if (mayExchange())
    applies = both(applies,
                   holds(Relation::AtMost, countPieces(tile, rows), resident));
  applies = both(applies, when);

  SmallVector<Value> operands{buffers.input};
  if (problem.jagged)
    operands.push_back(buffers.offsets);
  operands.append({buffers.output, buffers.scales});
  if (mayExchange())
    operands.push_back(createSlots(applies));
  for (OpFoldResult argument : arguments)
    operands.push_back(index(argument));
  Value blocks = minOf(workTiles, resident).getValue(b), one = index(1);
  operands.push_back(blocks);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, one, one},
                         {countThreads(tile.getColumns()), 1, 1},
                         /*sharedBytes=*/0, operands, both(applies, isNeeded),
                         /*cluster=*/{},
                         /*cooperative=*/mayExchange());
  return applies;
}

namespace mlir::fp8moe {
FailureOr<Value> launchResidentStrips(const KernelInstance &instance,
                                      Value when, ProgramLowering &lowering) {
  return ResidentStripLaunch(cast<QuantizeInstance>(instance), lowering)
      .launch(when);
}
} // namespace mlir::fp8moe
