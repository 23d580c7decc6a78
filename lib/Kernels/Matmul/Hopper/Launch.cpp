//===- Launch.cpp - Launches the grouped matmul of Hopper -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/Kernel.h"
#include "Kernels/Matmul/MatmulLaunch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Bytes fetched to L2 when a part of them is read (L2 promotion of tensor
/// maps). Along the contraction, the bytes that follow are the next stage's.
/// Along the rows or columns, they are another box of this stage, which is
/// loaded anyway.
static constexpr int64_t kContractionPromotion = 256;
static constexpr int64_t kMNMajorPromotion = 128;
/// Alignment of partial sums: accesses of a warp cover whole L2 lines.
static constexpr int64_t kPartialSumsAlignment = 128;

namespace {
/// Launches the kernels of one operation.
class HopperMatmulLaunch : MatmulLaunch {
public:
  HopperMatmulLaunch(const MatmulInstance &instance, ProgramLowering &lowering)
      : MatmulLaunch(instance, lowering) {}

  FailureOr<Value> launch(Value when);

private:
  /// A buffer as a matrix of a tensor map, from the innermost dimension on.
  struct Matrix {
    TypedValue<MemRefType> buffer;
    SmallVector<OpFoldResult> sizes;
    /// Strides of all dimensions but the innermost.
    SmallVector<OpFoldResult> strides;
    int64_t elementBytes;
  };
  /// Gets the dimensions `dims` of a tensor, in this order, as a matrix with a
  /// contiguous innermost dimension. Reports at the operation if it is not.
  LogicalResult getMatrix(const Twine &name, RankedTensorType type,
                          const BufferView &view, ArrayRef<int64_t> dims,
                          Matrix &matrix);
  Value createMap(const Matrix &matrix, ArrayRef<int64_t> box, int64_t swizzle,
                  int64_t promotion);
  LogicalResult setMatrices();
  void launchTile(GroupedMatmulProblem problem,
                  const GroupedMatmulSizes<OpFoldResult> &sizes,
                  const Matrix &result, const HopperMatmulConfig &config,
                  Value condition);
  void launchSplits(const HopperMatmulConfig &config, Value condition);
  /// Creates workspace for `count` f32.
  TypedValue<MemRefType> createFloats(OpFoldResult count);
  Value createPartialSums();
  SmallVector<Value> createLeastWaves();
  SmallVector<Value> createMaps(const Matrix &result,
                                const HopperMatmulConfig &config);

  /// The matrices; all but the addend, which may be missing, have tensor maps.
  Matrix a, b, result, addend;
  /// Blocks of a launch, one for each multiprocessor; and workspace for partial
  /// sums, if there may be any.
  Value blocks, partialSums;
};
} // namespace

static HopperMatmulConfig getConfig(AlternativeAttr alternative) {
  return getHopperMatmulConfig(cast<WgmmaTileAttr>(alternative.getTile()));
}

LogicalResult HopperMatmulLaunch::getMatrix(const Twine &name,
                                            RankedTensorType type,
                                            const BufferView &view,
                                            ArrayRef<int64_t> dims,
                                            Matrix &matrix) {
  matrix.buffer = view.buffer;
  matrix.elementBytes = type.getElementTypeBitWidth() / 8;
  for (int64_t dim : dims) {
    matrix.sizes.push_back(view.sizes[dim]);
    int64_t known = getStaticSize(view.sizes[dim]);
    if (!ShapedType::isDynamic(known)) {
      if (known < 1 || known > kMaxExtent)
        return emitError() << "takes sizes from 1 to " << kMaxExtent
                           << ", found " << known << " in " << type;
    } else {
      require(arith::CmpIPredicate::sle, view.sizes[dim], kMaxExtent,
              "the matmul kernel takes at most " + Twine(kMaxExtent) +
                  " along dimension " + Twine(dim) + " of " + name);
    }
  }
  if (getStaticSize(view.strides[dims.front()]) != 1 &&
      type.getDimSize(dims.front()) != 1)
    return emitError()
           << "expects " << name << " to be contiguous along dimension "
           << dims.front() << ", found " << type
           << "; run fp8moe-optimize-layouts, or fp8moe.relayout it";
  for (int64_t dim : dims.drop_front()) {
    matrix.strides.push_back(view.strides[dim]);
    if (failed(requirePitch(name, view, dim, matrix.elementBytes,
                            nvidia::kTensorMapAddressAlignment)))
      return failure();
  }
  raiseAlignment(view.buffer, nvidia::kTensorMapAddressAlignment);
  return success();
}

Value HopperMatmulLaunch::createMap(const Matrix &matrix, ArrayRef<int64_t> box,
                                    int64_t swizzle, int64_t promotion) {
  SmallVector<Value> sizes, strides;
  for (OpFoldResult value : matrix.sizes)
    sizes.push_back(getIndex(value));
  for (OpFoldResult value : matrix.strides)
    strides.push_back(getIndex(value));
  return plan::TensorMapOp::create(builder, op.getLoc(), matrix.buffer,
                                   /*offset=*/Value(), sizes, strides, box,
                                   swizzle, promotion);
}

/// Sets the matrices. Innermost are the contraction in K-major operands, and
/// the columns in the result.
LogicalResult HopperMatmulLaunch::setMatrices() {
  SmallVector<int64_t> bDims = problem.hasExperts()
                                   ? SmallVector<int64_t>{1, 2, 0}
                                   : SmallVector<int64_t>{0, 1};
  SmallVector<int64_t> aDims{1, 0};
  if (problem.mnMajorA)
    std::swap(aDims[0], aDims[1]);
  if (problem.mnMajorB)
    std::swap(bDims[0], bDims[1]);
  SmallVector<int64_t> resultDims = problem.isMGrouped()
                                        ? SmallVector<int64_t>{1, 0}
                                        : SmallVector<int64_t>{2, 1, 0};
  if (failed(getMatrix("the first operand", op.getA().getType(), instance.a,
                       aDims, a)) ||
      failed(getMatrix("the second operand", op.getB().getType(), instance.b,
                       bDims, b)) ||
      failed(getMatrix("the result", op.getType(), instance.result, resultDims,
                       result)))
    return failure();
  if (!instance.addend)
    return success();
  return getMatrix("the tensor to accumulate into", op.getAddend().getType(),
                   *instance.addend, resultDims, addend);
}

TypedValue<MemRefType> HopperMatmulLaunch::createFloats(OpFoldResult count) {
  int64_t known = getStaticSize(count);
  SmallVector<Value> dynamicSizes;
  if (ShapedType::isDynamic(known))
    dynamicSizes.push_back(getIndex(count));
  return plan::WorkspaceOp::create(
             builder, op.getLoc(), MemRefType::get(known, builder.getF32Type()),
             dynamicSizes, ValueRange(), kPartialSumsAlignment)
      .getBuffer();
}

/// Creates workspace for the partial sums of all blocks of any alternative, if
/// there may be any.
Value HopperMatmulLaunch::createPartialSums() {
  Location loc = op.getLoc();
  int64_t words = 0;
  for (AlternativeAttr alternative : op.getTilesAttr().getEntries())
    words = std::max<int64_t>(
        words, getPartialSumsBytes(getConfig(alternative)) / sizeof(float));
  Value isLong = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::sgt, getIndex(sizes.contraction),
      getIndex(builder.getIndexAttr(kFastSumElements)));
  Value all = arith::MulIOp::create(builder, loc, blocks,
                                    getIndex(builder.getIndexAttr(words)));
  Value count = arith::SelectOp::create(builder, loc, isLong, all,
                                        getIndex(builder.getIndexAttr(0)));
  return createFloats(count);
}

/// Returns an i1 for each alternative of an M-grouped matmul: whether its
/// predicted time is least for the call's number of rows, computed on the host.
/// Exactly one is true. A single alternative has null.
SmallVector<Value> HopperMatmulLaunch::createLeastWaves() {
  auto alternatives = op.getTilesAttr().getEntries();
  if (op.getTilesAttr().size() == 1)
    return {Value()};
  ImplicitLocOpBuilder host(op.getLoc(), builder);
  HostSize rows(host, sizes.rows), columns(host, sizes.columns),
      groups(host, sizes.groups), perWave(host, blocks);
  // Twice the time of each.
  SmallVector<Value> times =
      llvm::map_to_vector(alternatives, [&](AlternativeAttr alternative) {
        HostSize waves = countDoubledWaves(getConfig(alternative), rows,
                                           columns, groups, perWave);
        return (waves * alternative.getWave()).getValue(host);
      });
  // The first of the best: it beats all before, and ties with none of them.
  SmallVector<Value> conditions;
  for (size_t index : llvm::seq(times.size())) {
    Value condition;
    auto demand = [&](arith::CmpIPredicate predicate, ArrayRef<Value> others) {
      if (others.empty())
        return;
      Value least = others.front();
      for (Value other : others.drop_front())
        least = host.createOrFold<arith::MinSIOp>(least, other);
      condition = both(condition, host.createOrFold<arith::CmpIOp>(
                                      predicate, times[index], least));
    };
    demand(arith::CmpIPredicate::slt, ArrayRef(times).take_front(index));
    demand(arith::CmpIPredicate::sle, ArrayRef(times).drop_front(index + 1));
    conditions.push_back(condition);
  }
  return conditions;
}

/// Creates the tensor maps of one alternative. Their boxes depend on the tile.
SmallVector<Value>
HopperMatmulLaunch::createMaps(const Matrix &result,
                               const HopperMatmulConfig &config) {
  int64_t stage = kSwizzleRowBytes / problem.getElementBytes();
  ResultBox resultBox = ResultBox::get(config.columns, result.elementBytes);
  // MN-major operands come in boxes as wide as the swizzle.
  SmallVector<int64_t> aBox{stage, problem.mnMajorA ? stage : config.rows};
  SmallVector<int64_t> bBox{stage, problem.mnMajorB ? stage : config.columns};
  SmallVector<int64_t> box{resultBox.columns, ResultBox::kRows};
  if (problem.hasExperts())
    bBox.push_back(1);
  if (!problem.isMGrouped() || config.splits > 1)
    box.push_back(1);
  auto createOperandMap = [&](const Matrix &matrix, ArrayRef<int64_t> box,
                              bool isMNMajor) {
    return createMap(matrix, box, kSwizzleRowBytes,
                     isMNMajor ? kMNMajorPromotion : kContractionPromotion);
  };
  return {createOperandMap(a, aBox, problem.mnMajorA),
          createOperandMap(b, bBox, problem.mnMajorB),
          createMap(result, box, resultBox.rowBytes, /*promotion=*/0)};
}

/// Launches the kernel of one tile.
void HopperMatmulLaunch::launchTile(
    GroupedMatmulProblem problem, const GroupedMatmulSizes<OpFoldResult> &sizes,
    const Matrix &result, const HopperMatmulConfig &config, Value condition) {
  problem.sizes = getKnownSizes(sizes);
  KernelLaunch launch =
      createLaunch(problem, getWgmmaTile(op.getContext(), config),
                   {problem.promoted}, HopperMatmulConfig::kThreads);
  launch.buffers = createMaps(result, config);
  launch.tensorMaps = launch.buffers.size();
  addOffsetsAndScales(launch);
  if (problem.isMGrouped())
    launch.buffers.push_back(result.buffer);
  if (loadsAddend(problem))
    launch.buffers.push_back(addend.buffer);
  if (partialSums)
    launch.buffers.push_back(partialSums);
  launch.sizes = listSizes(sizes);
  launch.hasBlockCount = false;
  launch.sharedBytes = HopperMatmulMemory::get(config).total +
                       GroupOrder::getBytes(problem, config);
  lowering.launchBlocks(
      op.getLoc(), launch, blocks,
      [&](KernelBuilder &b) { buildHopperGroupedMatmul(b, problem, config); },
      condition);
}

/// Launches a split-K matmul: the f32 products of the splits, then their sum.
void HopperMatmulLaunch::launchSplits(const HopperMatmulConfig &config,
                                      Value condition) {
  Location loc = op.getLoc();
  constexpr int64_t kBytes = sizeof(float);
  // Tensor maps ask for it.
  constexpr int64_t kPitch = nvidia::kTensorMapAddressAlignment / kBytes;
  OpFoldResult pitch =
      size.mul(size.ceilDiv(sizes.columns, kPitch), size.constant(kPitch));
  OpFoldResult part = size.mul(sizes.rows, pitch);
  OpFoldResult all = size.mul(part, size.constant(config.splits));
  TypedValue<MemRefType> products = createFloats(all);

  Matrix ofParts{products,
                 {sizes.columns, sizes.rows, size.constant(config.splits)},
                 {pitch, part},
                 kBytes};
  OpFoldResult zero = size.constant(0);
  GroupedMatmulProblem problemOfParts = problem;
  GroupedMatmulSizes<OpFoldResult> sizesOfParts = sizes;
  problemOfParts.resultType = builder.getF32Type();
  problemOfParts.accumulates = false;
  sizesOfParts.resultRow = sizesOfParts.addendRow = sizesOfParts.addendGroup =
      zero;
  launchTile(problemOfParts, sizesOfParts, ofParts, config, condition);

  SplitSum sum{problem.resultType,
               config.splits,
               products,
               result.buffer,
               Value(),
               {sizes.rows, sizes.columns, pitch, sizes.resultRow, zero}};
  if (instance.addend) {
    sum.addend = instance.addend->buffer;
    sum.sizes.addendRow = sizes.addendRow;
  }
  launchSplitSum(loc, sum, condition, lowering);
}

FailureOr<Value> HopperMatmulLaunch::launch(Value when) {
  if (failed(setMatrices()))
    return failure();
  blocks =
      plan::DeviceAttrOp::create(builder, op.getLoc(), builder.getIndexType(),
                                 plan::DeviceAttribute::Multiprocessors);
  if (hasPartialSums(problem))
    partialSums = createPartialSums();
  // A K-grouped matmul of no rows is known: every group is empty.
  if (problem.isMGrouped() && ShapedType::isDynamic(problem.sizes.contraction))
    require(arith::CmpIPredicate::sge, sizes.contraction, 1,
            "the matmul kernel contracts over at least one element");
  // A tensor map of no experts cannot be encoded, and without a launch rows of
  // no group would stay as they were.
  if (problem.hasExperts() && ShapedType::isDynamic(problem.sizes.groups))
    require(arith::CmpIPredicate::sge, sizes.groups, 1,
            "the matmul kernel takes at least one group");
  Value isNotEmpty =
      createIsNotEmpty({sizes.rows, sizes.columns, sizes.groups});
  // Only the copy needs strides of what is not loaded.
  GroupedMatmulSizes<OpFoldResult> sizesOfTiles = sizes;
  if (!loadsAddend(problem))
    sizesOfTiles.addendRow = sizesOfTiles.addendGroup = size.constant(0);
  for (auto [alternative, isChosen] :
       llvm::zip_equal(op.getTilesAttr().getEntries(), createLeastWaves())) {
    HopperMatmulConfig config = getConfig(alternative);
    Value condition = both(both(isNotEmpty, isChosen), when);
    if (config.splits > 1) {
      launchSplits(config, condition);
      continue;
    }
    // The kernel adds to the result, which begins as a copy of the addend.
    // Mostly both are one memory: gradients of microbatches are summed in
    // place.
    if (addsInMemory(problem) &&
        failed(lowering.getTable().copyTensor(
            op, op.getType(), *instance.addend, instance.result, lowering,
            {condition, /*mayBeSame=*/true})))
      return failure();
    launchTile(problem, sizesOfTiles, result, config, condition);
  }
  return Value();
}

namespace mlir::fp8moe {
FailureOr<Value> launchHopperMatmul(const KernelInstance &instance, Value when,
                                    ProgramLowering &lowering) {
  return HopperMatmulLaunch(cast<MatmulInstance>(instance), lowering)
      .launch(when);
}
} // namespace mlir::fp8moe
