//===- LowerMatmul.cpp - Grouped matmuls ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Matmul/LowerMatmul.h"

#include "FP8MoEToGPU/Matmul/MatmulChoice.h"
#include "FP8MoEToGPU/Program/ProgramLowering.h"

#include "fp8moe/Conversion/FP8MoEToGPU/Matmul/GroupedMatmul.h"
#include "fp8moe/Conversion/FP8MoEToGPU/Matmul/Hopper/MatmulAtoms.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The first address and every stride but the innermost of what the tensor
/// memory accelerator copies are multiples of this many bytes.
static constexpr int64_t kTensorMapAlignment = 16;
/// Lines that are brought to the second-level cache when a part of them is
/// read: operands are read whole, by neighbouring blocks.
static constexpr int64_t kOperandPromotion = 256;
/// Rows, columns and positions in the contraction are i32, and a tile may begin
/// before the last one and end after it.
static constexpr int64_t kMaxExtent = (int64_t(1) << 31) - (1 << 16);
/// Accesses of a warp to partial sums cover whole lines.
static constexpr int64_t kPartialSumsAlignment = 128;
/// Threads of a block: the producer and two consumers of 128 each.
static constexpr int64_t kThreads = 384;

namespace {
/// Lowers one operation.
class MatmulLowering {
public:
  MatmulLowering(GroupedMatmulOp op, ProgramLowering &lowering)
      : op(op), lowering(lowering), builder(lowering.getBuilder()),
        size(builder, op.getLoc()) {}

  LogicalResult lower();

private:
  /// A buffer seen by the kernel: from the innermost dimension on.
  struct Matrix {
    TypedValue<MemRefType> buffer;
    SmallVector<OpFoldResult> sizes;
    /// Those of all dimensions but the innermost.
    SmallVector<OpFoldResult> strides;
    int64_t elementBytes;
  };
  /// The dimensions of a tensor in this order, as a matrix whose innermost
  /// dimension is contiguous; reports at the operation when that is not so.
  FailureOr<Matrix> getMatrix(const Twine &name, RankedTensorType type,
                              const BufferView &view, ArrayRef<int64_t> dims);
  LogicalResult requirePitch(const Twine &name, OpFoldResult stride,
                             int64_t elementBytes);
  void require(arith::CmpIPredicate predicate, OpFoldResult value,
               int64_t bound, const Twine &message);
  Value getIndex(OpFoldResult value) {
    return materializeSize(builder, op.getLoc(), value);
  }
  Value createMap(const Matrix &matrix, ArrayRef<int64_t> box, int64_t swizzle,
                  int64_t promotion);
  /// What the kernel works on.
  struct Operands {
    Matrix a, b, result;
    std::optional<Matrix> addend;
  };
  FailureOr<SmallVector<MatmulTileCost, 1>> getVariants();
  GroupedMatmulSizes<OpFoldResult> getSizes(const Operands &operands);
  GroupedMatmulProblem
  getProblem(const Operands &operands,
             const GroupedMatmulSizes<OpFoldResult> &sizes);
  SymbolRefAttr getKernel(const GroupedMatmulProblem &problem,
                          const MatmulSchedule &schedule);
  Value createPartialSums(ArrayRef<MatmulTileCost> variants,
                          OpFoldResult contraction, Value blocks);
  Value createIsNotEmpty(const GroupedMatmulSizes<OpFoldResult> &sizes);
  SmallVector<Value> createMaps(const Operands &operands,
                                const GroupedMatmulProblem &problem,
                                const MatmulSchedule &schedule);
  LogicalResult launch(const Operands &operands);

  GroupedMatmulOp op;
  ProgramLowering &lowering;
  OpBuilder builder;
  SizeBuilder size;
};
} // namespace

/// Kernels rely on more than the layout promises: the runtime refuses a caller
/// whose buffer is aligned to less.
static void raiseAlignment(Value buffer, int64_t alignment) {
  llvm::TypeSwitch<Operation *, void>(buffer.getDefiningOp())
      .Case<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>([&](auto op) {
        if (static_cast<int64_t>(op.getAlignment()) < alignment)
          op.setAlignment(alignment);
      });
}

void MatmulLowering::require(arith::CmpIPredicate predicate, OpFoldResult value,
                             int64_t bound, const Twine &message) {
  Value condition =
      arith::CmpIOp::create(builder, op.getLoc(), predicate, getIndex(value),
                            getIndex(builder.getIndexAttr(bound)));
  plan::RequireOp::create(builder, op.getLoc(), condition,
                          builder.getStringAttr(message));
}

LogicalResult MatmulLowering::requirePitch(const Twine &name,
                                           OpFoldResult stride,
                                           int64_t elementBytes) {
  int64_t step = kTensorMapAlignment / elementBytes;
  int64_t known = getStaticSize(stride);
  if (ShapedType::isDynamic(known)) {
    require(arith::CmpIPredicate::eq, size.rem(stride, step), 0,
            "the matmul kernel needs strides of " + name +
                " that are multiples of " + Twine(step) + " elements");
    return success();
  }
  if (known % step == 0)
    return success();
  return op.emitOpError("on ")
         << lowering.getTarget().chip << " expects strides of " << name
         << " that are multiples of " << step << " elements ("
         << kTensorMapAlignment << " bytes), found " << known
         << "; pad the tensor, or compile the function for target 'cpu'";
}

FailureOr<MatmulLowering::Matrix>
MatmulLowering::getMatrix(const Twine &name, RankedTensorType type,
                          const BufferView &view, ArrayRef<int64_t> dims) {
  Matrix matrix;
  matrix.buffer = view.buffer;
  matrix.elementBytes = type.getElementTypeBitWidth() / 8;
  for (int64_t dim : dims) {
    matrix.sizes.push_back(view.sizes[dim]);
    int64_t known = getStaticSize(view.sizes[dim]);
    if (!ShapedType::isDynamic(known)) {
      if (known < 1 || known > kMaxExtent)
        return op.emitOpError("on ")
               << lowering.getTarget().chip << " takes sizes from 1 to "
               << kMaxExtent << ", found " << known << " in " << type;
    } else {
      require(arith::CmpIPredicate::sle, view.sizes[dim], kMaxExtent,
              "the matmul kernel takes at most " + Twine(kMaxExtent) +
                  " along dimension " + Twine(dim) + " of " + name);
    }
  }
  if (getStaticSize(view.strides[dims.front()]) != 1 &&
      type.getDimSize(dims.front()) != 1)
    return op.emitOpError("on ")
           << lowering.getTarget().chip << " expects " << name
           << " to be contiguous along dimension " << dims.front() << ", found "
           << type << "; run fp8moe-optimize-layouts, or fp8moe.relayout it";
  for (int64_t dim : dims.drop_front()) {
    matrix.strides.push_back(view.strides[dim]);
    if (failed(requirePitch(name, view.strides[dim], matrix.elementBytes)))
      return failure();
  }
  raiseAlignment(view.buffer, kTensorMapAlignment);
  return matrix;
}

Value MatmulLowering::createMap(const Matrix &matrix, ArrayRef<int64_t> box,
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

/// The tile that the operation names, or those that tile selection would
/// choose.
FailureOr<SmallVector<MatmulTileCost, 1>> MatmulLowering::getVariants() {
  const TargetInfo &target = lowering.getTarget();
  if (!op.getTileAttr())
    return getMatmulVariants(getMatmulWork(op), target);
  FailureOr<MatmulTileCost> tile = requireMatmulTile(op, target);
  if (failed(tile))
    return failure();
  return SmallVector<MatmulTileCost, 1>{*tile};
}

/// Room for the partial sums of all blocks of any variant, when there may be
/// any.
Value MatmulLowering::createPartialSums(ArrayRef<MatmulTileCost> variants,
                                        OpFoldResult contraction,
                                        Value blocks) {
  Location loc = op.getLoc();
  int64_t words = 0;
  for (const MatmulTileCost &variant : variants)
    words = std::max<int64_t>(words, getPartialSumsBytes(variant.schedule) /
                                         sizeof(float));
  Value isLong = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::sgt, getIndex(contraction),
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

LogicalResult MatmulLowering::lower() {
  const TargetInfo &target = lowering.getTarget();
  if (!target.hasWarpgroupMatmul)
    return op.emitError("'")
           << op->getName() << "' is not supported on target " << target.chip
           << " yet; compile the function for sm_90a or 'cpu'";
  RankedTensorType aType = op.getA().getType(), bType = op.getB().getType();
  for (Type type : {aType.getElementType(), bType.getElementType()})
    if (isFp8Type(type) && !lowering.getKernels().getHooks().supportsFP8(type))
      return lowering.reportUnsupported(
          op, "of '" + debugString(type) +
                  "' (the hardware has the other flavour; use !fp8moe.e4m3 or "
                  "!fp8moe.e5m2)");
  FailureOr<BufferView> view = lowering.createResult(op->getResult(0));
  if (failed(view))
    return failure();
  // The contraction is innermost in both operands, the columns in the result.
  bool forward = op.isForward();
  SmallVector<int64_t> bDims =
      forward ? SmallVector<int64_t>{1, 2, 0} : SmallVector<int64_t>{0, 1};
  SmallVector<int64_t> resultDims =
      forward ? SmallVector<int64_t>{1, 0} : SmallVector<int64_t>{2, 1, 0};
  FailureOr<Matrix> a = getMatrix("the first operand", aType,
                                  lowering.getView(op.getA()), {1, 0});
  if (failed(a))
    return failure();
  FailureOr<Matrix> b = getMatrix("the second operand", bType,
                                  lowering.getView(op.getB()), bDims);
  if (failed(b))
    return failure();
  FailureOr<Matrix> result =
      getMatrix("the result", op.getType(), *view, resultDims);
  if (failed(result))
    return failure();
  std::optional<Matrix> addend;
  if (op.getAddend()) {
    FailureOr<Matrix> matrix =
        getMatrix("the tensor to accumulate into", op.getAddend().getType(),
                  lowering.getView(op.getAddend()), resultDims);
    if (failed(matrix))
      return failure();
    addend = *matrix;
  }
  return launch({*a, *b, *result, addend});
}

GroupedMatmulSizes<OpFoldResult>
MatmulLowering::getSizes(const Operands &operands) {
  bool forward = op.isForward();
  OpFoldResult zero = builder.getIndexAttr(0);
  const std::optional<Matrix> &addend = operands.addend;
  GroupedMatmulSizes<OpFoldResult> sizes;
  sizes.rows = operands.a.sizes[1];
  sizes.columns = operands.b.sizes[1];
  sizes.contraction = operands.a.sizes[0];
  sizes.groups = lowering.getView(op.getOffsets()).sizes[0];
  sizes.resultRow = forward ? operands.result.strides[0] : zero;
  sizes.addendRow = addend ? addend->strides[0] : zero;
  sizes.addendGroup = addend && !forward ? addend->strides[1] : zero;
  return sizes;
}

GroupedMatmulProblem
MatmulLowering::getProblem(const Operands &operands,
                           const GroupedMatmulSizes<OpFoldResult> &sizes) {
  GroupedMatmulProblem problem;
  problem.aType = op.getA().getType().getElementType();
  problem.bType = op.getB().getType().getElementType();
  problem.resultType = op.getType().getElementType();
  problem.forward = op.isForward();
  if (GroupPaddingAttr padding = getGroupPadding(op.getA().getType()))
    problem.padding = padding.getPad();
  problem.hasScales = static_cast<bool>(op.getScaleA());
  problem.reciprocalScales = op.getDirection() == ScaleDirection::Quantize;
  problem.promoted = getMatmulWork(op).promoted;
  problem.accumulates = operands.addend.has_value();
  for (auto [from, to] :
       llvm::zip_equal(GroupedMatmulSizes<OpFoldResult>::members(),
                       GroupedMatmulSizes<int64_t>::members()))
    problem.sizes.*to = getStaticSize(sizes.*from);
  return problem;
}

SymbolRefAttr MatmulLowering::getKernel(const GroupedMatmulProblem &problem,
                                        const MatmulSchedule &schedule) {
  SmallVector<int64_t> numbers{problem.forward,   problem.padding,
                               problem.hasScales, problem.reciprocalScales,
                               problem.promoted,  problem.accumulates};
  for (auto member : GroupedMatmulSizes<int64_t>::members())
    numbers.push_back(problem.sizes.*member);
  return lowering.getKernels().getOrBuild(
      problem.forward ? "grouped_matmul" : "grouped_matmul_wgrad",
      {TypeAttr::get(problem.aType), TypeAttr::get(problem.bType),
       TypeAttr::get(problem.resultType),
       getMatmulTile(op.getContext(), schedule),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildGroupedMatmul(op.getLoc(), module, name, problem, schedule, hooks);
      });
}

/// Boxes are as large as a tile, so each variant has maps of its own.
SmallVector<Value>
MatmulLowering::createMaps(const Operands &operands,
                           const GroupedMatmulProblem &problem,
                           const MatmulSchedule &schedule) {
  int64_t stage = kSwizzleRowBytes / problem.getElementBytes();
  ResultBox resultBox =
      ResultBox::get(schedule.columns, problem.getResultBytes());
  SmallVector<int64_t> aBox{stage, schedule.rows};
  SmallVector<int64_t> bBox{stage, schedule.columns};
  SmallVector<int64_t> box{resultBox.columns, ResultBox::kRows};
  (problem.forward ? bBox : box).push_back(1);
  return {createMap(operands.a, aBox, kSwizzleRowBytes, kOperandPromotion),
          createMap(operands.b, bBox, kSwizzleRowBytes, kOperandPromotion),
          createMap(operands.result, box, resultBox.rowBytes, /*promotion=*/0)};
}

/// Whether the result has elements (an i1), if that is not known.
Value MatmulLowering::createIsNotEmpty(
    const GroupedMatmulSizes<OpFoldResult> &sizes) {
  Value isNotEmpty;
  for (OpFoldResult extent : {sizes.rows, sizes.columns, sizes.groups}) {
    if (!ShapedType::isDynamic(getStaticSize(extent)))
      continue;
    Value hasElements = arith::CmpIOp::create(
        builder, op.getLoc(), arith::CmpIPredicate::sge, getIndex(extent),
        getIndex(builder.getIndexAttr(1)));
    isNotEmpty = isNotEmpty ? arith::AndIOp::create(builder, op.getLoc(),
                                                    isNotEmpty, hasElements)
                                  .getResult()
                            : hasElements;
  }
  return isNotEmpty;
}

LogicalResult MatmulLowering::launch(const Operands &operands) {
  FailureOr<SmallVector<MatmulTileCost, 1>> variants = getVariants();
  if (failed(variants))
    return failure();
  GroupedMatmulSizes<OpFoldResult> sizes = getSizes(operands);
  GroupedMatmulProblem problem = getProblem(operands, sizes);
  Value blocks =
      plan::DeviceAttrOp::create(builder, op.getLoc(), builder.getIndexType(),
                                 plan::DeviceAttribute::Multiprocessors);
  // What follows the tensor maps.
  SmallVector<Value> args{lowering.getView(op.getOffsets()).buffer};
  if (problem.hasScales)
    args.append({lowering.getView(op.getScaleA()).buffer,
                 lowering.getView(op.getScaleB()).buffer});
  if (problem.forward)
    args.push_back(operands.result.buffer);
  if (operands.addend)
    args.push_back(operands.addend->buffer);
  if (problem.hasPartialSums())
    args.push_back(createPartialSums(*variants, sizes.contraction, blocks));
  for (auto member : GroupedMatmulSizes<OpFoldResult>::members())
    if (ShapedType::isDynamic(getStaticSize(sizes.*member)))
      args.push_back(getIndex(sizes.*member));

  // A weight gradient of no rows is known: every group is empty.
  if (problem.forward && ShapedType::isDynamic(problem.sizes.contraction))
    require(arith::CmpIPredicate::sge, sizes.contraction, 1,
            "the matmul kernel contracts over at least one element");
  Value isNotEmpty = createIsNotEmpty(sizes);
  Value one = getIndex(builder.getIndexAttr(1));
  SmallVector<Value> choice =
      createMatmulChoice(builder, op.getLoc(), *variants, sizes, blocks);
  for (auto [variant, isChosen] : llvm::zip_equal(*variants, choice)) {
    const MatmulSchedule &schedule = variant.schedule;
    SmallVector<Value> all = createMaps(operands, problem, schedule);
    all.append(args);
    Value condition = isNotEmpty;
    if (isChosen && condition)
      condition =
          arith::AndIOp::create(builder, op.getLoc(), condition, isChosen);
    else if (isChosen)
      condition = isChosen;
    plan::LaunchOp::create(builder, op.getLoc(), getKernel(problem, schedule),
                           ValueRange{blocks, one, one}, {kThreads, 1, 1},
                           MatmulMemory::get(schedule).total, all, condition);
  }
  return success();
}

namespace {
class MatmulOpLowering : public OpLowering {
public:
  StringRef getName() const override { return "grouped matmuls"; }
  bool matches(Operation *op) const override {
    return isa<GroupedMatmulOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    return MatmulLowering(cast<GroupedMatmulOp>(op), lowering).lower();
  }
};
} // namespace

const OpLowering &fp8moe::getMatmulOpLowering() {
  static const MatmulOpLowering lowering;
  return lowering;
}
