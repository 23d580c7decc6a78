//===- ResidentStripLaunch.cpp - Launches of held strips ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ClearedWorkspace.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/ResidentStrips/ResidentStripTiles.h"
#include "Kernels/Quantize/ResidentStrips/ResidentStrips.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::resident_strips;

/// Alignment of the slots in bytes: one of them.
static constexpr int64_t kSlotAlignment = 256;

namespace {
class ResidentStripLaunch : QuantizeLaunch {
public:
  ResidentStripLaunch(const KernelInstance &instance,
                      const QuantizeOperands &operands,
                      const QuantizeConfig &config, ProgramLowering &lowering)
      : QuantizeLaunch(instance, operands, lowering), config(config),
        rows(b, sizes.reduction), segments(b, sizes.segments),
        strips(ceilDiv(HostSize(b, sizes.parallel),
                       HostSize(config.columnsPerBlock))) {}

  Value launch(Value when);

private:
  SymbolRefAttr getKernel(SmallVectorImpl<OpFoldResult> &arguments);
  /// Whether a strip may have several pieces.
  bool mayExchange() const {
    std::optional<int64_t> known = rows.getKnown();
    return !known || *known > getHeldRows(config);
  }
  Value holds(Relation relation, const HostSize &lhs, const HostSize &rhs) {
    return fp8moe::compare(relation, lhs, rhs).getValue();
  }
  /// Where blocks post magnitudes, cleared where `when` holds and a strip may
  /// have several pieces.
  Value createSlots(Value when);

  const QuantizeConfig &config;
  HostSize rows, segments, strips;
};
} // namespace

SymbolRefAttr
ResidentStripLaunch::getKernel(SmallVectorImpl<OpFoldResult> &arguments) {
  SmallVector<int64_t> numbers{problem.powerOfTwo,      problem.jagged,
                               problem.outputPadding,   problem.inputAlignment,
                               problem.outputAlignment, config.columnsPerBlock,
                               config.heldTiles,        config.residentBlocks};
  arguments = addSizes(numbers);
  return lowering.getKernels().getOrBuild(
      "quantize_resident_strips",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        KernelSignature signature;
        unsigned tensors = 3 + problem.jagged;
        signature.pointers = tensors + mayExchange();
        signature.sizes = countDynamic(problem.sizes);
        signature.threads = config.threads;
        KernelBuilder kernelBuilder(b.getLoc(), module, name, signature, hooks);
        QuantizeKernel kernel(kernelBuilder, problem);
        buildResidentStrips(kernel, config,
                            mayExchange() ? kernelBuilder.getPointer(tensors)
                                          : Value());
      });
}

Value ResidentStripLaunch::createSlots(Value when) {
  HostSize slots = countSlots(config, problem.jagged, segments, rows) * strips;
  Value mayBeDivided =
      holds(Relation::More, rows, HostSize(getHeldRows(config)));
  return createClearedWorkspace(
      b, lowering, slots * HostSize(config.columnsPerBlock), kSlotAlignment,
      both(both(when, mayBeDivided), isNeeded));
}

Value ResidentStripLaunch::launch(Value when) {
  SmallVector<OpFoldResult> arguments;
  SymbolRefAttr kernel = getKernel(arguments);
  HostSize pieces = countAllPieces(config, problem.jagged, segments, rows);
  HostSize workTiles = pieces * strips;
  HostSize resident = countResident(config.residentBlocks);
  // The device counts in 32 bits, and the pieces of a strip need as many
  // blocks, all of which are resident.
  Value applies = both(holds(Relation::Less, rows, HostSize(kMaxCount)),
                       holds(Relation::Less, workTiles, HostSize(kMaxCount)));
  if (mayExchange())
    applies = both(
        applies, holds(Relation::AtMost, countPieces(config, rows), resident));
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
                         {config.threads, 1, 1}, /*sharedBytes=*/0, operands,
                         both(applies, isNeeded), /*cluster=*/{},
                         /*cooperative=*/mayExchange());
  return applies;
}

namespace {
class ResidentStripsLowering : public TileLowering<ResidentStripsTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    const auto &quantize = cast<QuantizeInstance>(instance);
    return ResidentStripLaunch(quantize, quantize.operands, quantize.config,
                               lowering)
        .launch(when);
  }
};
} // namespace

namespace mlir::fp8moe {
const KernelLowering &getResidentStripsLowering() {
  static const ResidentStripsLowering lowering;
  return lowering;
}
} // namespace mlir::fp8moe
