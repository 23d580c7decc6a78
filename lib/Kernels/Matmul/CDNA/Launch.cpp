//===- Launch.cpp - Launches the grouped matmul of CDNA -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/MatmulLaunch.h"

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t kAlignment = CDNAMatmulConfig::kChunkBytes;
/// Rows of groups, with what their tiles of scales are padded to: three lines
/// of these tiles, four bytes of each a row, lie within 32-bit offsets.
static constexpr int64_t kMaxScaleRows = int64_t(1) << 27;

namespace {
/// Launches the kernel of one operation.
class CDNAMatmulLaunch : MatmulLaunch {
public:
  CDNAMatmulLaunch(const MatmulInstance &instance, ProgramLowering &lowering)
      : MatmulLaunch(instance, lowering) {}

  FailureOr<Value> launch(Value when);

private:
  /// Refuses what is larger than `most`, now or when the program is called.
  LogicalResult requireAtMost(OpFoldResult value, int64_t most,
                              const Twine &what);
  LogicalResult checkOperand(const Twine &name, const BufferView &view,
                             int64_t contracted, bool isMNMajor);
  LogicalResult checkResult(const Twine &name, const BufferView &view);
  LogicalResult check();
  bool shiftsLines() const {
    return problem.hasBlockScales() && !problem.isMGrouped();
  }
  CDNAMatmulStrides<OpFoldResult> getStrides();
  OpFoldResult countRowBlocks(const CDNAMatmulConfig &config);
};
} // namespace

LogicalResult CDNAMatmulLaunch::requireAtMost(OpFoldResult value, int64_t most,
                                              const Twine &what) {
  int64_t known = getStaticSize(value);
  if (ShapedType::isDynamic(known)) {
    require(arith::CmpIPredicate::sle, value, most,
            "the matmul kernel takes " + what + " up to " + Twine(most));
    return success();
  }
  if (known <= most)
    return success();
  return emitError() << "takes " << what << " up to " << most << ", found "
                     << known
                     << "; split the tensor, or compile the function for "
                        "target 'cpu'";
}

/// The contraction is contiguous, or what the result has too, and the other
/// begins at multiples of what a lane loads, unless lines are shifted.
LogicalResult CDNAMatmulLaunch::checkOperand(const Twine &name,
                                             const BufferView &view,
                                             int64_t contracted,
                                             bool isMNMajor) {
  int64_t elementBytes = problem.getElementBytes();
  int64_t rank = view.sizes.size();
  int64_t contiguous = contracted;
  if (isMNMajor)
    contiguous = contracted == rank - 1 ? rank - 2 : rank - 1;
  for (int64_t dim : llvm::seq(rank)) {
    bool isSingle = getStaticSize(view.sizes[dim]) == 1;
    if (dim == contiguous) {
      if (getStaticSize(view.strides[dim]) != 1 && !isSingle)
        return emitError() << "expects " << name
                           << " to be contiguous along dimension " << dim
                           << "; run fp8moe-optimize-layouts, or "
                              "fp8moe.relayout it";
    }
    bool isContracted = dim == contracted;
    int64_t most = !isContracted ? kMaxExtent
                   : isMNMajor   ? kMaxExtent / elementBytes
                                 : kMaxPitchBytes / elementBytes;
    if (failed(
            requireAtMost(view.sizes[dim], most,
                          isContracted ? "a contraction" : "sizes of " + name)))
      return failure();
    if (dim == contiguous || isSingle)
      continue;
    // Lines that are shifted begin anywhere.
    if (!shiftsLines() &&
        failed(requirePitch(name, view, dim, elementBytes, kAlignment)))
      return failure();
    // Experts may be farther apart than what a descriptor spans.
    bool isExpert = rank == 3 && dim == 0;
    if (!isExpert &&
        failed(requireAtMost(view.strides[dim], kMaxPitchBytes / elementBytes,
                             "strides of " + name)))
      return failure();
  }
  raiseAlignment(view.buffer, kAlignment);
  return success();
}

LogicalResult CDNAMatmulLaunch::checkResult(const Twine &name,
                                            const BufferView &view) {
  int64_t last = view.sizes.size() - 1;
  if (getStaticSize(view.strides[last]) != 1 &&
      getStaticSize(view.sizes[last]) != 1)
    return emitError() << "expects " << name
                       << " to be contiguous along dimension " << last
                       << "; fp8moe.relayout such a result instead";
  return requireAtMost(view.strides[last - 1],
                       kMaxPitchBytes / problem.getResultBytes(),
                       "strides of " + name);
}

LogicalResult CDNAMatmulLaunch::check() {
  if (failed(checkOperand("the first operand", instance.a,
                          op.getContractedDimA(), problem.mnMajorA)) ||
      failed(checkOperand("the second operand", instance.b,
                          op.getContractedDimB(), problem.mnMajorB)) ||
      failed(checkResult("the result", instance.result)))
    return failure();
  // Kernels count them in 32 bits, and along the contraction their bytes.
  if (problem.blockScalesA == BlockScales::GroupTiles)
    requireScaleRows(problem.isMGrouped() ? kMaxExtent : kMaxScaleRows);
  if (!instance.addend)
    return success();
  return checkResult("the tensor to accumulate into", *instance.addend);
}

CDNAMatmulStrides<OpFoldResult> CDNAMatmulLaunch::getStrides() {
  OpFoldResult zero = builder.getIndexAttr(0);
  CDNAMatmulStrides<OpFoldResult> strides;
  int64_t last = instance.b.strides.size() - 1;
  strides.pitchA = instance.a.strides[problem.mnMajorA ? 1 : 0];
  strides.pitchB = instance.b.strides[problem.mnMajorB ? last - 1 : last];
  strides.bGroup = problem.hasExperts() ? instance.b.strides[0] : zero;
  // M-grouped, the problem has that of the result's rows.
  strides.resultRow = problem.isMGrouped() ? zero : instance.result.strides[1];
  strides.resultGroup =
      problem.isMGrouped() ? zero : instance.result.strides[0];
  return strides;
}

/// Blocks of rows that there may be, a multiple of the dies.
OpFoldResult CDNAMatmulLaunch::countRowBlocks(const CDNAMatmulConfig &config) {
  OpFoldResult blocks = size.ceilDiv(sizes.rows, config.rows);
  if (problem.hasExperts())
    blocks = size.add(blocks, size.add(sizes.groups, size.constant(1)));
  else if (!problem.isMGrouped())
    blocks = size.mul(blocks, sizes.groups);
  return size.mul(size.ceilDiv(blocks, config.dies),
                  size.constant(config.dies));
}

FailureOr<Value> CDNAMatmulLaunch::launch(Value when) {
  if (failed(check()))
    return failure();
  auto tile = cast<MfmaTileAttr>(op.getTilesAttr().getFirst().getTile());
  CDNAMatmulConfig config = getCDNAMatmulConfig(
      tile.getRows(), tile.getColumns(), lowering.getTarget(), shiftsLines());
  CDNAMatmulStrides<OpFoldResult> strides = getStrides();
  KernelLaunch launch =
      createLaunch(problem, tile, /*numbers=*/{}, config.getThreads());
  addOffsetsAndScales(launch);
  launch.buffers.append(
      {instance.a.buffer, instance.b.buffer, instance.result.buffer});
  if (instance.addend)
    launch.buffers.push_back(instance.addend->buffer);
  launch.sizes = listSizes(sizes);
  llvm::append_range(launch.sizes, listSizes(strides));
  OpFoldResult blocks = size.mul(countRowBlocks(config),
                                 size.ceilDiv(sizes.columns, config.columns));
  Value isNeeded = both(createIsNotEmpty({sizes.rows, sizes.columns}), when);
  lowering.launchBlocks(
      op.getLoc(), launch, blocks,
      [&](KernelBuilder &b) {
        buildCDNAGroupedMatmul(b, problem, getKnownSizes(strides), config);
      },
      isNeeded);
  return Value();
}

namespace mlir::fp8moe {
FailureOr<Value> launchCDNAMatmul(const KernelInstance &instance, Value when,
                                  ProgramLowering &lowering) {
  return CDNAMatmulLaunch(cast<MatmulInstance>(instance), lowering)
      .launch(when);
}
} // namespace mlir::fp8moe
