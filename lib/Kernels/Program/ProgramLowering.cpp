//===- ProgramLowering.cpp - One function becomes a program ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ProgramLowering.h"

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// More blocks than this take turns. A grid of so many blocks of 256 threads is
/// within the limits of both vendors.
static constexpr int64_t kMaxBlocks = int64_t(1) << 22;

/// Alignment of workspace in bytes: that of a cache line on every target.
static constexpr int64_t kWorkspaceAlignment = 256;

int64_t fp8moe::getStaticSize(OpFoldResult size) {
  return getConstantIntValue(size).value_or(ShapedType::kDynamic);
}

int64_t fp8moe::getBufferAlignment(const BufferView &view) {
  return llvm::TypeSwitch<Operation *, int64_t>(view.buffer.getDefiningOp())
      .Case<plan::InputOp, plan::OutputOp, plan::WorkspaceOp>(
          [](auto op) { return op.getAlignment(); });
}

Value fp8moe::createBoth(OpBuilder &builder, Location loc, Value lhs,
                         Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return builder.createOrFold<arith::AndIOp>(loc, lhs, rhs);
}

Value fp8moe::createNot(OpBuilder &builder, Location loc, Value condition) {
  Value yes =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1);
  return builder.createOrFold<arith::XOrIOp>(loc, condition, yes);
}

bool fp8moe::isNever(Value condition) {
  return condition && matchPattern(condition, m_Zero());
}

//===----------------------------------------------------------------------===//
// Buffers and launches
//===----------------------------------------------------------------------===//

FailureOr<BufferView> ProgramLowering::createResult(OpResult result) {
  auto destination = destinations.find(result);
  if (destination != destinations.end()) {
    views[result] = destination->second;
    return destination->second;
  }
  Operation *op = result.getOwner();
  auto type = cast<RankedTensorType>(result.getType());
  FailureOr<SmallVector<OpFoldResult>> sizes = signature.getSizes(result, op);
  if (failed(sizes))
    return failure();
  OpBuilder builder = getBuilder();
  SizeBuilder size(builder, op->getLoc());
  BufferView view;
  view.sizes = *sizes;
  if (std::optional<StridedLayout> layout = StridedLayout::get(type)) {
    // No caller sees this buffer, so the strides that a layout leaves open are
    // the dense ones.
    bool isGiven = !layout->dense &&
                   !llvm::is_contained(layout->strides, ShapedType::kDynamic);
    view.strides =
        isGiven ? getAsIndexOpFoldResult(type.getContext(), layout->strides)
                : size.denseStrides(type, view.sizes);
  }

  // The runtime counts the bytes of a buffer from its sizes and strides.
  SmallVector<int64_t> staticSizes, staticStrides;
  SmallVector<Value> dynamicSizes, dynamicStrides;
  auto split = [&](ArrayRef<OpFoldResult> from, SmallVector<int64_t> &known,
                   SmallVector<Value> &operands) {
    for (OpFoldResult value : from) {
      known.push_back(getStaticSize(value));
      if (ShapedType::isDynamic(known.back()))
        operands.push_back(materializeSize(builder, op->getLoc(), value));
    }
  };
  split(size.bufferSizes(type, view.sizes), staticSizes, dynamicSizes);
  split(view.strides, staticStrides, dynamicStrides);
  // Block scales in tiles are a number of bytes.
  auto bufferType = view.strides.empty()
                        ? MemRefType::get(staticSizes, type.getElementType())
                        : MemRefType::get(staticSizes, type.getElementType(),
                                          StridedLayoutAttr::get(
                                              type.getContext(),
                                              /*offset=*/0, staticStrides));
  auto workspace =
      plan::WorkspaceOp::create(builder, op->getLoc(), bufferType, dynamicSizes,
                                dynamicStrides, kWorkspaceAlignment);
  view.buffer = cast<TypedValue<MemRefType>>(workspace.getBuffer());
  views[result] = view;
  return view;
}

void ProgramLowering::launchKernel(Location loc, const KernelLaunch &launch,
                                   OpFoldResult workTiles,
                                   function_ref<void(KernelBuilder &)> build,
                                   Value condition) {
  OpBuilder builder = getBuilder();
  auto index = [&](OpFoldResult value) {
    return materializeSize(builder, loc, value);
  };
  OpFoldResult blocks;
  if (std::optional<int64_t> known = getConstantIntValue(workTiles))
    blocks = builder.getIndexAttr(std::min(*known, kMaxBlocks));
  else
    blocks = arith::MinSIOp::create(builder, loc, index(workTiles),
                                    index(builder.getIndexAttr(kMaxBlocks)))
                 .getResult();
  launchBlocks(loc, launch, blocks, build, condition);
}

void ProgramLowering::launchBlocks(Location loc, const KernelLaunch &launch,
                                   OpFoldResult blocks,
                                   function_ref<void(KernelBuilder &)> build,
                                   Value condition) {
  OpBuilder builder = getBuilder();
  SmallVector<int64_t> numbers = launch.numbers;
  SmallVector<Value> args = launch.buffers;
  KernelSignature signature{launch.tensorMaps,
                            unsigned(args.size()) - launch.tensorMaps,
                            /*sizes=*/0, launch.hasBlockCount, launch.threads};
  for (OpFoldResult size : launch.sizes) {
    numbers.push_back(getStaticSize(size));
    if (ShapedType::isStatic(numbers.back()))
      continue;
    args.push_back(materializeSize(builder, loc, size));
    ++signature.sizes;
  }
  Value numBlocks = materializeSize(builder, loc, blocks);
  if (launch.hasBlockCount)
    args.push_back(numBlocks);
  SmallVector<Attribute> key = launch.key;
  key.push_back(builder.getDenseI64ArrayAttr(numbers));
  SymbolRefAttr kernel = kernels.getOrBuild(
      launch.name, key,
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        KernelBuilder b(loc, module, name, signature, target);
        build(b);
      });
  Value one = materializeSize(builder, loc, builder.getIndexAttr(1));
  plan::LaunchOp::create(builder, loc, kernel, ValueRange{numBlocks, one, one},
                         {launch.threads, 1, 1}, launch.sharedBytes, args,
                         condition, /*cluster=*/{}, launch.isCooperative,
                         /*programmatic=*/launch.isCooperative);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult ProgramLowering::reportUnsupported(Operation *op,
                                                 const Twine &what) {
  return op->emitError("'") << op->getName() << "' " << what
                            << " is not supported on target " << target.chip;
}

LogicalResult ProgramLowering::requireFP8(Operation *op, StringRef relation,
                                          Type fp8Type) {
  if (getFp8Flavour(fp8Type) == target.fp8)
    return success();
  return reportUnsupported(op, relation + " '" + debugString(fp8Type) +
                                   "' (the hardware has the other flavour; use "
                                   "!fp8moe.e4m3 or !fp8moe.e5m2)");
}

/// Finds the tensors that can be computed in an output's memory: those that are
/// returned, perhaps through transposes. Other outputs are copies.
void ProgramLowering::assignOutputs(func::FuncOp func) {
  Operation *terminator = func.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    BufferView view = signature.getOutputs()[operand.getOperandNumber()];
    Value tensor = operand.get();
    while (Operation *producer = tensor.getDefiningOp()) {
      if (auto transpose = dyn_cast<TransposeOp>(producer)) {
        SmallVector<int64_t> inverse =
            invertPermutation(transpose.getPermutation());
        view.sizes = applyPermutation(view.sizes, inverse);
        view.strides = applyPermutation(view.strides, inverse);
      } else if (!isNoopRelayout(producer)) {
        break;
      }
      tensor = producer->getOperand(0);
    }
    Operation *op = tensor.getDefiningOp();
    if (!op || !table.writesResults(op) ||
        !destinations.try_emplace(tensor, view).second)
      copiedOutputs.push_back(operand.getOperandNumber());
  }
}

LogicalResult ProgramLowering::copyOutputs(func::FuncOp func) {
  Operation *terminator = func.front().getTerminator();
  for (unsigned index : copiedOutputs) {
    Value tensor = terminator->getOperand(index);
    if (!StridedLayout::get(cast<RankedTensorType>(tensor.getType())))
      return terminator->emitError()
             << "result #" << index << " would be a copy of tiled scales, "
             << tensor.getType() << ", which target " << target.chip
             << " does not make; return once what an operation of the function "
                "writes, or compile it for target 'cpu'";
    // A function may return what no operation of it has touched.
    if (failed(checkTensors(terminator, tensor.getType(),
                            /*takesTiledScales=*/false)) ||
        failed(table.copyTensor(terminator,
                                cast<RankedTensorType>(tensor.getType()),
                                getView(tensor), signature.getOutputs()[index],
                                *this, CopyCondition())))
      return failure();
  }
  return success();
}

LogicalResult ProgramLowering::checkTensors(Operation *op, TypeRange types,
                                            bool takesTiledScales) {
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    if (!takesTiledScales && !StridedLayout::get(tensor))
      return reportUnsupported(op, "on tensors with layout " +
                                       debugString(tensor.getEncoding()));
    if (isNeutralFp8Type(tensor.getElementType()))
      return op->emitError("'")
             << op->getName() << "' still has the target-neutral element type "
             << tensor.getElementType()
             << "; run fp8moe-resolve-fp8-types first";
  }
  return success();
}

LogicalResult ProgramLowering::lowerOperation(Operation *op) {
  const OpLowering *row = table.findOpLowering(op);
  bool takesTiledScales = row && row->takesTiledScales;
  if (failed(checkTensors(op, op->getOperandTypes(), takesTiledScales)) ||
      failed(checkTensors(op, op->getResultTypes(), takesTiledScales)))
    return failure();
  return row ? row->lower(op, *this) : reportNoKernel(op);
}

/// Returns advice about control flow, which only the CPU supports.
static StringRef adviseAboutFlow(Operation *op) {
  if (isa<scf::ForOp>(op))
    return "a loop is unrolled where its bounds are constants and it makes at "
           "most 4096 operations; give it such bounds, make one iteration the "
           "program and loop on the host";
  if (isa<scf::IfOp, arith::SelectOp, tensor::ExtractOp>(op))
    return "make each branch a program and choose between them on the host";
  return "";
}

LogicalResult ProgramLowering::reportNoKernel(Operation *op) {
  if (StringRef advice = adviseAboutFlow(op); !advice.empty())
    return op->emitError("'")
           << op->getName() << "' is not supported on target " << target.chip
           << ", where a program launches kernels in one order; " << advice
           << ", or compile the function for target 'cpu'";
  return op->emitError("'")
         << op->getName() << "' is not supported on target " << target.chip
         << " yet; compile the function for target 'cpu', or keep only "
         << table.listOps() << " in it";
}

LogicalResult ProgramLowering::lower(func::FuncOp func) {
  for (auto [argument, view] :
       llvm::zip_equal(func.getArguments(), signature.getInputs()))
    views[argument] = view;
  assignOutputs(func);
  // Control flow is reported before the arithmetic that only it reads.
  for (Operation &op : func.front().without_terminator())
    if (op.getNumRegions() && !table.findOpLowering(&op))
      return reportNoKernel(&op);
  for (Operation &op : func.front().without_terminator())
    if (failed(lowerOperation(&op)))
      return failure();
  if (failed(copyOutputs(func)))
    return failure();
  // A kernel that computes its own input leaves the tensor without a use.
  for (auto workspace : llvm::make_early_inc_range(
           signature.getProgram().getOps<plan::WorkspaceOp>()))
    if (workspace.use_empty())
      workspace.erase();
  return success();
}
