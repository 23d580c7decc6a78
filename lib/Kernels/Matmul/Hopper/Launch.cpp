//===- Launch.cpp - Launches the grouped matmul of Hopper -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/AddendCopy.h"
#include "Kernels/Matmul/Hopper/GroupOrder.h"
#include "Kernels/Matmul/Hopper/LeastWaves.h"
#include "Kernels/Matmul/MatmulLaunch.h"
#include "Kernels/Matmul/SumSplits.h"

#include "Kernels/Matmul/Hopper/GroupedMatmul.h"
#include "Kernels/Matmul/Hopper/MatmulAtoms.h"
#include "fp8moe/Target/NVIDIA.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Bytes that are brought to the second-level cache when a part of them is
/// read. Along the contraction the next part is that of the next stage. The
/// next part along the rows or columns is another box of this stage, which is
/// read at once anyway.
static constexpr int64_t kContractionPromotion = 256;
static constexpr int64_t kMNMajorPromotion = 128;
/// Accesses of a warp to partial sums cover whole lines.
static constexpr int64_t kPartialSumsAlignment = 128;

namespace {
/// Launches the kernels of one operation.
class HopperMatmulLaunch : MatmulLaunch {
public:
  HopperMatmulLaunch(const MatmulInstance &instance, ProgramLowering &lowering)
      : MatmulLaunch(instance, lowering) {}

  LogicalResult launch(Value when);

private:
  /// A buffer seen by the kernel: from the innermost dimension on.
  struct Matrix {
    TypedValue<MemRefType> buffer;
    SmallVector<OpFoldResult> sizes;
    /// Strides of all dimensions but the innermost.
    SmallVector<OpFoldResult> strides;
    int64_t elementBytes;
  };
  /// The dimensions of a tensor in this order, as a matrix whose innermost
  /// dimension is contiguous; reports at the operation when that is not so.
  FailureOr<Matrix> getMatrix(const Twine &name, RankedTensorType type,
                              const BufferView &view, ArrayRef<int64_t> dims);
  Value createMap(const Matrix &matrix, ArrayRef<int64_t> box, int64_t swizzle,
                  int64_t promotion);
  /// All but the addend have tensor maps.
  struct Operands {
    Matrix a, b, result;
    std::optional<Matrix> addend;
  };
  FailureOr<Operands> getOperands();
  SymbolRefAttr getKernel(const GroupedMatmulProblem &problem,
                          const HopperMatmulConfig &config);
  void launchTile(const GroupedMatmulProblem &problem,
                  const GroupedMatmulSizes<OpFoldResult> &sizes,
                  const Operands &operands, const HopperMatmulConfig &config,
                  Value partialSums, Value blocks, Value condition);
  void launchCopy(const Operands &operands, Value blocks, Value condition);
  void dropAddend(GroupedMatmulProblem &problem,
                  GroupedMatmulSizes<OpFoldResult> &sizes);
  void launchSplits(const Operands &operands, const HopperMatmulConfig &config,
                    Value partialSums, Value blocks, Value condition);
  Value createPartialSums(ArrayRef<MatmulAlternative> alternatives,
                          Value blocks);
  SmallVector<Value> createMaps(const Operands &operands, int64_t resultBytes,
                                const HopperMatmulConfig &config);
};
} // namespace

FailureOr<HopperMatmulLaunch::Matrix>
HopperMatmulLaunch::getMatrix(const Twine &name, RankedTensorType type,
                              const BufferView &view, ArrayRef<int64_t> dims) {
  Matrix matrix;
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
  return matrix;
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

/// The contraction is innermost in operands that are not MN-major, the columns
/// in the result.
FailureOr<HopperMatmulLaunch::Operands> HopperMatmulLaunch::getOperands() {
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
  FailureOr<Matrix> a =
      getMatrix("the first operand", op.getA().getType(), instance.a, aDims);
  if (failed(a))
    return failure();
  FailureOr<Matrix> b =
      getMatrix("the second operand", op.getB().getType(), instance.b, bDims);
  if (failed(b))
    return failure();
  FailureOr<Matrix> result =
      getMatrix("the result", op.getType(), instance.result, resultDims);
  if (failed(result))
    return failure();
  Operands operands{*a, *b, *result, std::nullopt};
  if (instance.addend) {
    FailureOr<Matrix> addend =
        getMatrix("the tensor to accumulate into", op.getAddend().getType(),
                  *instance.addend, resultDims);
    if (failed(addend))
      return failure();
    operands.addend = *addend;
  }
  return operands;
}

/// Room for the partial sums of all blocks of any alternative, when there may
/// be any.
Value HopperMatmulLaunch::createPartialSums(
    ArrayRef<MatmulAlternative> alternatives, Value blocks) {
  Location loc = op.getLoc();
  int64_t words = 0;
  for (const MatmulAlternative &alternative : alternatives)
    words = std::max<int64_t>(words, getPartialSumsBytes(alternative.config) /
                                         sizeof(float));
  Value isLong = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::sgt, getIndex(sizes.contraction),
      getIndex(builder.getIndexAttr(kFastSumElements)));
  Value all = arith::MulIOp::create(builder, loc, blocks,
                                    getIndex(builder.getIndexAttr(words)));
  Value size = arith::SelectOp::create(builder, loc, isLong, all,
                                       getIndex(builder.getIndexAttr(0)));
  auto type = MemRefType::get(ShapedType::kDynamic, builder.getF32Type());
  return plan::WorkspaceOp::create(builder, loc, type, ValueRange{size},
                                   ValueRange(), kPartialSumsAlignment)
      .getBuffer();
}

SymbolRefAttr HopperMatmulLaunch::getKernel(const GroupedMatmulProblem &problem,
                                            const HopperMatmulConfig &config) {
  SmallVector<int64_t> numbers{problem.isMGrouped(), problem.dense,
                               problem.padding,      problem.hasScalesA,
                               problem.hasScalesB,   problem.reciprocalScales,
                               problem.promoted,     problem.accumulates,
                               problem.mnMajorA,     problem.mnMajorB};
  for (auto member : GroupedMatmulSizes<int64_t>::members())
    numbers.push_back(problem.sizes.*member);
  return lowering.getKernels().getOrBuild(
      problem.dense          ? "matmul"
      : problem.isMGrouped() ? "grouped_matmul"
                             : "grouped_matmul_k_grouped",
      {TypeAttr::get(problem.aType), TypeAttr::get(problem.bType),
       TypeAttr::get(problem.resultType), getWgmmaTile(op.getContext(), config),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildHopperGroupedMatmul(op.getLoc(), module, name, problem, config,
                                 target);
      });
}

/// Boxes are as large as a tile, so each alternative has maps of its own.
SmallVector<Value>
HopperMatmulLaunch::createMaps(const Operands &operands, int64_t resultBytes,
                               const HopperMatmulConfig &config) {
  int64_t stage = kSwizzleRowBytes / problem.getElementBytes();
  ResultBox resultBox = ResultBox::get(config.columns, resultBytes);
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
  return {createOperandMap(operands.a, aBox, problem.mnMajorA),
          createOperandMap(operands.b, bBox, problem.mnMajorB),
          createMap(operands.result, box, resultBox.rowBytes, /*promotion=*/0)};
}

/// The kernel of one tile.
void HopperMatmulLaunch::launchTile(
    const GroupedMatmulProblem &problem,
    const GroupedMatmulSizes<OpFoldResult> &sizes, const Operands &operands,
    const HopperMatmulConfig &config, Value partialSums, Value blocks,
    Value condition) {
  SmallVector<Value> args =
      createMaps(operands, problem.getResultBytes(), config);
  if (!problem.dense)
    args.push_back(instance.offsets);
  for (Value scales : {instance.scaleA, instance.scaleB})
    if (scales)
      args.push_back(scales);
  if (problem.isMGrouped())
    args.push_back(operands.result.buffer);
  if (loadsAddend(problem))
    args.push_back(operands.addend->buffer);
  if (partialSums)
    args.push_back(partialSums);
  for (auto member : GroupedMatmulSizes<OpFoldResult>::members())
    if (ShapedType::isDynamic(getStaticSize(sizes.*member)))
      args.push_back(getIndex(sizes.*member));
  Value one = getIndex(builder.getIndexAttr(1));
  plan::LaunchOp::create(builder, op.getLoc(), getKernel(problem, config),
                         ValueRange{blocks, one, one},
                         {HopperMatmulConfig::kThreads, 1, 1},
                         getMatmulMemory(problem, config).total +
                             GroupOrder::getBytes(problem, config),
                         args, condition);
}

/// Begins the result with what the kernel adds to.
void HopperMatmulLaunch::launchCopy(const Operands &operands, Value blocks,
                                    Value condition) {
  const Matrix &addend = *operands.addend, &result = operands.result;
  OpFoldResult zero = size.constant(0);
  AddendCopySizes<OpFoldResult> copy{size.constant(1),     sizes.rows,
                                     sizes.columns,        addend.strides[0],
                                     /*addendGroup=*/zero, result.strides[0],
                                     /*resultGroup=*/zero};
  if (!problem.isMGrouped()) {
    copy.groups = sizes.groups;
    copy.addendGroup = addend.strides[1];
    copy.resultGroup = result.strides[1];
  }
  launchAddendCopy(op.getLoc(), addend.buffer, result.buffer, copy, blocks,
                   condition, lowering);
}

/// Kernels that do not read the addend know nothing of its strides.
void HopperMatmulLaunch::dropAddend(GroupedMatmulProblem &problem,
                                    GroupedMatmulSizes<OpFoldResult> &sizes) {
  problem.sizes.addendRow = problem.sizes.addendGroup = 0;
  sizes.addendRow = sizes.addendGroup = size.constant(0);
}

/// The f32 products of the parts of a dense contraction, and their sum.
void HopperMatmulLaunch::launchSplits(const Operands &operands,
                                      const HopperMatmulConfig &config,
                                      Value partialSums, Value blocks,
                                      Value condition) {
  Location loc = op.getLoc();
  constexpr int64_t kBytes = sizeof(float);
  // Tensor maps ask for it.
  constexpr int64_t kPitch = nvidia::kTensorMapAddressAlignment / kBytes;
  OpFoldResult pitch =
      size.mul(size.ceilDiv(sizes.columns, kPitch), size.constant(kPitch));
  OpFoldResult part = size.mul(sizes.rows, pitch);
  OpFoldResult all = size.mul(part, size.constant(config.splits));
  SmallVector<Value> dynamicSizes;
  if (ShapedType::isDynamic(getStaticSize(all)))
    dynamicSizes.push_back(getIndex(all));
  TypedValue<MemRefType> products =
      plan::WorkspaceOp::create(
          builder, loc,
          MemRefType::get(getStaticSize(all), builder.getF32Type()),
          dynamicSizes, ValueRange(), kPartialSumsAlignment)
          .getBuffer();

  Operands ofParts = operands;
  ofParts.result = {products,
                    {sizes.columns, sizes.rows, size.constant(config.splits)},
                    {pitch, part},
                    kBytes};
  OpFoldResult zero = size.constant(0);
  GroupedMatmulProblem problemOfParts = problem;
  GroupedMatmulSizes<OpFoldResult> sizesOfParts = sizes;
  problemOfParts.resultType = builder.getF32Type();
  problemOfParts.accumulates = false;
  dropAddend(problemOfParts, sizesOfParts);
  sizesOfParts.resultRow = zero;
  problemOfParts.sizes.resultRow = 0;
  launchTile(problemOfParts, sizesOfParts, ofParts, config, partialSums, blocks,
             condition);

  SplitSum sum{problem.resultType,
               config.splits,
               products,
               operands.result.buffer,
               Value(),
               {sizes.rows, sizes.columns, pitch, sizes.resultRow, zero}};
  if (instance.addend) {
    sum.addend = instance.addend->buffer;
    sum.sizes.addendRow = sizes.addendRow;
  }
  launchSplitSum(loc, sum, condition, lowering);
}

LogicalResult HopperMatmulLaunch::launch(Value when) {
  FailureOr<Operands> operands = getOperands();
  if (failed(operands))
    return failure();
  SmallVector<MatmulAlternative> alternatives;
  for (AlternativeAttr entry : op.getTilesAttr().getEntries())
    alternatives.push_back(
        {getHopperMatmulConfig(cast<WgmmaTileAttr>(entry.getTile())),
         entry.getWave()});
  Value blocks =
      plan::DeviceAttrOp::create(builder, op.getLoc(), builder.getIndexType(),
                                 plan::DeviceAttribute::Multiprocessors);
  Value partialSums;
  if (hasPartialSums(problem))
    partialSums = createPartialSums(alternatives, blocks);

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
  GroupedMatmulProblem ofTiles = problem;
  GroupedMatmulSizes<OpFoldResult> sizesOfTiles = sizes;
  if (!loadsAddend(problem))
    dropAddend(ofTiles, sizesOfTiles);
  SmallVector<Value> choice =
      createLeastWaves(builder, op.getLoc(), alternatives, sizes, blocks);
  for (auto [alternative, isChosen] : llvm::zip_equal(alternatives, choice)) {
    Value condition = both(both(isNotEmpty, isChosen), when);
    if (alternative.config.splits > 1) {
      launchSplits(*operands, alternative.config, partialSums, blocks,
                   condition);
      continue;
    }
    if (addsInMemory(problem))
      launchCopy(*operands, blocks, condition);
    launchTile(ofTiles, sizesOfTiles, *operands, alternative.config,
               partialSums, blocks, condition);
  }
  return success();
}

namespace mlir::fp8moe {
FailureOr<Value> launchHopperMatmul(const KernelInstance &instance, Value when,
                                    ProgramLowering &lowering) {
  const auto &matmul = cast<MatmulInstance>(instance);
  if (failed(HopperMatmulLaunch(matmul, lowering).launch(when)))
    return failure();
  return Value();
}
} // namespace mlir::fp8moe
