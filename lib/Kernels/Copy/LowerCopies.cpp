//===- LowerCopies.cpp - Copies to another layout -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Copy/Relayout.h"

#include "Kernels/Emit/ScaleTiles.h"
#include "Kernels/Program/ProgramLowering.h"
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
                                 int64_t elementBytes, ArrayRef<Dim> dims,
                                 OpFoldResult groups, SizeBuilder &size) {
  if (config.kind == RelayoutConfig::Groups)
    return size.mul(size.add(groups, size.constant(1)),
                    size.constant(kRelayoutGroupBlocks));
  bool hasTiles = config.kind == RelayoutConfig::Tiles;
  OpFoldResult workTiles = size.constant(1);
  for (auto [index, dim] : llvm::enumerate(dims)) {
    OpFoldResult count = dim.size;
    bool isInput = static_cast<int64_t>(index) == config.inputDim;
    bool isOutput = static_cast<int64_t>(index) == config.outputDim;
    if (hasTiles && (isInput || isOutput))
      count = size.ceilDiv(count, kRelayoutTileBytes / elementBytes);
    else if (config.kind == RelayoutConfig::Vectors && isInput)
      count = size.ceilDiv(count, kRelayoutChunkBytes / elementBytes);
    workTiles = size.mul(workTiles, count);
  }
  if (config.kind == RelayoutConfig::Vectors)
    return size.ceilDiv(workTiles, kRelayoutBlockChunks);
  return hasTiles ? workTiles : size.ceilDiv(workTiles, kRelayoutThreads);
}

/// Blocks of a launch that may have nothing to copy: as many as are resident.
static constexpr int64_t kBlocksPerMultiprocessor = 8;

/// Names of kernels, indexed by RelayoutConfig::Kind.
static constexpr StringLiteral kNames[] = {"copy_vectors", "copy_tiles",
                                           "copy_elements", "copy_groups"};

/// `groups` are those of the problem's padding, if it has one.
static LogicalResult launchRelayout(Operation *op, RelayoutProblem problem,
                                    ArrayRef<Dim> dims,
                                    const RelayoutGroups<OpFoldResult> &groups,
                                    ArrayRef<const BufferView *> buffers,
                                    ProgramLowering &lowering,
                                    Value when = {}) {
  problem.inputAlignment = getBufferAlignment(*buffers.front());
  problem.outputAlignment = getBufferAlignment(*buffers.back());
  KernelLaunch launch{{},
                      {},
                      {problem.elementBytes, problem.inputAlignment,
                       problem.outputAlignment, problem.mayBeSame},
                      kRelayoutThreads,
                      {},
                      {}};
  for (const Dim &dim : dims) {
    problem.dims.push_back(getKnownSizes(dim));
    llvm::append_range(launch.sizes, listSizes(dim));
  }
  if (problem.padding) {
    problem.groups = getKnownSizes(groups);
    llvm::append_range(launch.sizes, listSizes(groups));
    auto [dim, input, output] = *problem.padding;
    launch.numbers.append({dim, input, output});
  }
  for (const BufferView *view : buffers)
    launch.buffers.push_back(view->buffer);
  RelayoutConfig config = RelayoutConfig::get(problem);
  launch.name = kNames[config.kind];
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  OpFoldResult workTiles =
      getWorkTiles(config, problem.elementBytes, dims, groups.count, size);
  // Blocks that end at once are few.
  if (problem.mayBeSame)
    workTiles = size.mul(plan::DeviceAttrOp::create(
                             builder, op->getLoc(), builder.getIndexType(),
                             plan::DeviceAttribute::Multiprocessors)
                             .getResult(),
                         size.constant(kBlocksPerMultiprocessor));
  lowering.launchKernel(
      op->getLoc(), launch, workTiles,
      [&](KernelBuilder &b) { buildRelayout(b, problem); }, when);
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
                                 ProgramLowering &lowering,
                                 const CopyCondition &condition) {
  FailureOr<int64_t> elementBytes = getCopiedElementBytes(op, type, lowering);
  if (failed(elementBytes))
    return failure();
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  RelayoutProblem problem;
  problem.elementBytes = *elementBytes;
  problem.mayBeSame = condition.mayBeSame;
  return launchRelayout(op, problem, mergeDims(getDims(type, from, to), size),
                        /*groups=*/{}, {&from, &to}, lowering, condition.when);
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
  problem.sizes = getKnownSizes(sizes);
  OpFoldResult blockTiles = size.ceilDiv(sizes.blocks, kScaleTileBlocks);
  OpFoldResult workTiles = size.mul(
      size.mul(sizes.matrices, size.ceilDiv(sizes.lines, kSegmentTile)),
      size.ceilDiv(blockTiles, kRelayoutScalesTiles));
  lowering.launchKernel(
      op.getLoc(),
      {problem.toTiles ? "scales_to_tiles" : "scales_from_tiles",
       /*key=*/{},
       {problem.toTiles, problem.tilesAlignment},
       kRelayoutScalesThreads,
       {from.buffer, to.buffer},
       listSizes(sizes)},
      workTiles, [&](KernelBuilder &b) { buildRelayoutScales(b, problem); });
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
  RelayoutGroups<OpFoldResult> groups{
      offsets.sizes.front(), inputPadding ? to->sizes[dim] : from.sizes[dim],
      from.sizes[dim]};
  StridedLayout layout = *StridedLayout::get(outputType);
  RelayoutProblem problem;
  problem.elementBytes = *elementBytes;
  problem.padding = {llvm::find(layout.order, dim) - layout.order.begin(),
                     inputPadding ? inputPadding.getPad() : 1,
                     outputPadding ? outputPadding.getPad() : 1};
  return launchRelayout(op, problem, getDims(outputType, from, *to), groups,
                        {&from, &offsets, &*to}, lowering);
}

static bool isCopy(Operation *op) {
  return isa<ContiguousOp, RelayoutOp>(op) && !isNoopRelayout(op);
}

static LogicalResult lowerCopy(Operation *op, ProgramLowering &lowering) {
  if (auto relayout = dyn_cast<RelayoutOp>(op))
    return lowerRelayout(relayout, lowering);
  return lowerContiguous(cast<ContiguousOp>(op), lowering);
}

FP8MOE_DEFINE_OP_LOWERING(Copy, "copies", isCopy, lowerCopy,
                          /*takesTiledScales=*/true)
