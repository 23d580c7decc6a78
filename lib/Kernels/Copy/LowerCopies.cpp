//===- LowerCopies.cpp - Copies to another layout -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Copy/LowerCopies.h"

#include "Kernels/Program/ProgramLowering.h"

#include "Kernels/Copy/Relayout.h"
#include "Kernels/Copy/RelayoutScales.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace mlir::fp8moe;

using Dim = RelayoutDim<OpFoldResult>;

/// Merges dimensions that are adjacent in both layouts, and drops those of size
/// 1. At least one dimension is left.
///
///     size 64, in 4096, out 4096;  size 4096, in 1, out 1
///   ->
///     size 262144, in 1, out 1
static SmallVector<Dim> mergeDims(ArrayRef<Dim> dims, SizeBuilder &size) {
  SmallVector<Dim> merged;
  for (const Dim &dim : dims) {
    if (isConstantIntValue(dim.size, 1))
      continue;
    if (!merged.empty() &&
        isEqualConstantIntOrValue(merged.back().inStride,
                                  size.mul(dim.inStride, dim.size)) &&
        isEqualConstantIntOrValue(merged.back().outStride,
                                  size.mul(dim.outStride, dim.size)))
      merged.back() = {size.mul(merged.back().size, dim.size), dim.inStride,
                       dim.outStride};
    else
      merged.push_back(dim);
  }
  if (merged.empty())
    merged.push_back({size.constant(1), size.constant(1), size.constant(1)});
  return merged;
}

/// How many work tiles the schedule divides a copy into.
static OpFoldResult getWorkTiles(const RelayoutConfig &config,
                                 ArrayRef<Dim> dims,
                                 std::optional<OpFoldResult> groupCount,
                                 SizeBuilder &size) {
  if (config.kind == RelayoutConfig::Groups)
    return size.mul(size.add(*groupCount, size.constant(1)),
                    size.constant(config.blocksPerGroup));
  bool hasTiles = config.kind == RelayoutConfig::Tiles;
  OpFoldResult workTiles = size.constant(1);
  for (auto [index, dim] : llvm::enumerate(dims)) {
    OpFoldResult count = dim.size;
    bool isInput = static_cast<int64_t>(index) == config.inputDim;
    bool isOutput = static_cast<int64_t>(index) == config.outputDim;
    if (hasTiles && (isInput || isOutput))
      count = size.ceilDiv(count, config.tile);
    else if (config.kind == RelayoutConfig::Vectors && isInput)
      count = size.ceilDiv(count, config.chunk);
    workTiles = size.mul(workTiles, count);
  }
  if (config.kind == RelayoutConfig::Vectors)
    return size.ceilDiv(workTiles, config.chunksPerBlock);
  return hasTiles ? workTiles : size.ceilDiv(workTiles, config.threads);
}

static StringRef getKernelPrefix(RelayoutConfig::Kind kind) {
  switch (kind) {
  case RelayoutConfig::Vectors:
    return "copy_vectors";
  case RelayoutConfig::Tiles:
    return "copy_tiles";
  case RelayoutConfig::Elements:
    return "copy_elements";
  case RelayoutConfig::Groups:
    return "copy_groups";
  }
  llvm_unreachable("unknown kind");
}

static LogicalResult
launchRelayout(Operation *op, int64_t elementBytes, ArrayRef<Dim> dims,
               std::optional<RelayoutGroups<OpFoldResult>> groups,
               ArrayRef<const BufferView *> buffers,
               ProgramLowering &lowering) {
  RelayoutProblem problem;
  problem.elementBytes = elementBytes;
  problem.inputAlignment = getBufferAlignment(*buffers.front());
  problem.outputAlignment = getBufferAlignment(*buffers.back());
  SmallVector<OpFoldResult> sizes;
  auto add = [&](OpFoldResult size) {
    sizes.push_back(size);
    return getStaticSize(size);
  };
  for (const Dim &dim : dims) {
    RelayoutDim<int64_t> known;
    known.size = add(dim.size);
    known.inStride = add(dim.inStride);
    known.outStride = add(dim.outStride);
    problem.dims.push_back(known);
  }
  if (groups) {
    RelayoutGroups<int64_t> known;
    known.dim = groups->dim;
    known.inputPadding = groups->inputPadding;
    known.outputPadding = groups->outputPadding;
    known.count = add(groups->count);
    known.rows = add(groups->rows);
    known.inputSize = add(groups->inputSize);
    problem.groups = known;
  }

  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  RelayoutConfig config = chooseRelayoutConfig(problem);
  SmallVector<int64_t> key{elementBytes, problem.inputAlignment,
                           problem.outputAlignment};
  llvm::append_range(key, llvm::map_range(sizes, getStaticSize));
  if (groups)
    key.append({groups->dim, groups->inputPadding, groups->outputPadding});
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      getKernelPrefix(config.kind), builder.getDenseI64ArrayAttr(key),
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildRelayout(op->getLoc(), module, name, problem, target);
      });
  OpFoldResult workTiles = getWorkTiles(
      config, dims, groups ? std::optional(groups->count) : std::nullopt, size);
  SmallVector<Value> pointers;
  for (const BufferView *view : buffers)
    pointers.push_back(view->buffer);
  lowering.createLaunch(op->getLoc(), kernel, workTiles, config.threads,
                        pointers, sizes);
  return success();
}

/// The bytes of an element, which must be a size that kernels copy.
static FailureOr<int64_t> getCopiedElementBytes(Operation *op,
                                                RankedTensorType type,
                                                ProgramLowering &lowering) {
  unsigned bits =
      type.getElementType().isIntOrFloat() ? type.getElementTypeBitWidth() : 0;
  if (bits == 8 || bits == 16 || bits == 32)
    return bits / 8;
  return lowering.reportUnsupported(op, "with elements of type '" +
                                            debugString(type.getElementType()) +
                                            "' (expected 8, 16 or 32 bits)");
}

/// The dimensions of a copy in the output's order, outermost first.
static SmallVector<Dim> getDims(RankedTensorType outputType,
                                const BufferView &from, const BufferView &to) {
  StridedLayout layout = *StridedLayout::get(outputType);
  SmallVector<Dim> dims;
  for (int64_t dim : layout.order)
    dims.push_back({to.sizes[dim], from.strides[dim], to.strides[dim]});
  return dims;
}

LogicalResult fp8moe::copyTensor(Operation *op, RankedTensorType type,
                                 const BufferView &from, const BufferView &to,
                                 ProgramLowering &lowering) {
  FailureOr<int64_t> elementBytes = getCopiedElementBytes(op, type, lowering);
  if (failed(elementBytes))
    return failure();
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  return launchRelayout(op, *elementBytes,
                        mergeDims(getDims(type, from, to), size), std::nullopt,
                        {&from, &to}, lowering);
}

static LogicalResult lowerContiguous(ContiguousOp op,
                                     ProgramLowering &lowering) {
  BufferView from = lowering.getView(op.getInput());
  FailureOr<BufferView> to = lowering.createResult(op->getOpResult(0));
  if (failed(to))
    return failure();
  return copyTensor(op, op.getResult().getType(), from, *to, lowering);
}

/// (V4): block scales between matrices and tiles. A view without strides is in
/// tiles.
static void launchRelayoutScales(RelayoutOp op, const BufferView &from,
                                 const BufferView &to,
                                 ProgramLowering &lowering) {
  RelayoutScalesProblem problem;
  problem.toTiles = to.strides.empty();
  const BufferView &plain = problem.toTiles ? from : to;
  problem.tilesAlignment = getBufferAlignment(problem.toTiles ? to : from);
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op.getLoc());
  int64_t line = plain.sizes.size() - 2;
  bool hasMatrices = line > 0;
  ScaleMatrices<OpFoldResult> sizes;
  sizes.matrices = hasMatrices ? plain.sizes[0] : size.constant(1);
  sizes.lines = plain.sizes[line];
  sizes.blocks = plain.sizes[line + 1];
  sizes.matrixStride = hasMatrices ? plain.strides[0] : size.constant(0);
  sizes.lineStride = plain.strides[line];
  sizes.blockStride = plain.strides[line + 1];
  SmallVector<OpFoldResult> arguments;
  SmallVector<int64_t> key{problem.toTiles, problem.tilesAlignment};
  for (auto [from, to] : llvm::zip_equal(ScaleMatrices<OpFoldResult>::members(),
                                         ScaleMatrices<int64_t>::members())) {
    arguments.push_back(sizes.*from);
    problem.sizes.*to = getStaticSize(sizes.*from);
    key.push_back(problem.sizes.*to);
  }
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      problem.toTiles ? "scales_to_tiles" : "scales_from_tiles",
      builder.getDenseI64ArrayAttr(key),
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildRelayoutScales(op.getLoc(), module, name, problem, target);
      });
  OpFoldResult blockTiles = size.ceilDiv(sizes.blocks, kScaleTileLineBlocks);
  OpFoldResult workTiles = size.mul(
      size.mul(sizes.matrices, size.ceilDiv(sizes.lines, kScaleTileLines)),
      size.ceilDiv(blockTiles, kRelayoutScalesTiles));
  lowering.createLaunch(op.getLoc(), kernel, workTiles, kRelayoutScalesThreads,
                        {from.buffer, to.buffer}, arguments);
}

static LogicalResult lowerRelayout(RelayoutOp op, ProgramLowering &lowering) {
  BufferView from = lowering.getView(op.getInput());
  FailureOr<BufferView> to = lowering.createResult(op->getOpResult(0));
  if (failed(to))
    return failure();
  if (from.strides.empty() != to->strides.empty()) {
    launchRelayoutScales(op, from, *to, lowering);
    return success();
  }
  RankedTensorType inputType = op.getInput().getType();
  RankedTensorType outputType = op.getResult().getType();
  GroupPaddingAttr inputPadding = getGroupPadding(inputType);
  GroupPaddingAttr outputPadding = getGroupPadding(outputType);
  // Equal paddings are copied with their bytes; the verifier refuses different
  // ones.
  if (inputPadding == outputPadding)
    return copyTensor(op, outputType, from, *to, lowering);

  FailureOr<int64_t> elementBytes =
      getCopiedElementBytes(op, outputType, lowering);
  if (failed(elementBytes))
    return failure();
  BufferView offsets = lowering.getView(op.getOffsets());
  int64_t dim = (inputPadding ? inputPadding : outputPadding).getDim();
  RelayoutGroups<OpFoldResult> groups;
  groups.inputPadding = inputPadding ? inputPadding.getPad() : 1;
  groups.outputPadding = outputPadding ? outputPadding.getPad() : 1;
  groups.count = offsets.sizes.front();
  groups.rows = inputPadding ? to->sizes[dim] : from.sizes[dim];
  groups.inputSize = from.sizes[dim];
  StridedLayout layout = *StridedLayout::get(outputType);
  groups.dim = llvm::find(layout.order, dim) - layout.order.begin();
  return launchRelayout(op, *elementBytes, getDims(outputType, from, *to),
                        groups, {&from, &offsets, &*to}, lowering);
}

namespace {
class CopyOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "copies"; }
  bool matches(Operation *op) const override {
    return isa<ContiguousOp, RelayoutOp>(op) && !isNoopRelayout(op);
  }
  bool writesResults() const override { return true; }
  bool takesTiledScales() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    if (auto relayout = dyn_cast<RelayoutOp>(op))
      return lowerRelayout(relayout, lowering);
    return lowerContiguous(cast<ContiguousOp>(op), lowering);
  }
};
} // namespace

FP8MOE_DEFINE_ROW(OpLowering, CopyOpLowering)
