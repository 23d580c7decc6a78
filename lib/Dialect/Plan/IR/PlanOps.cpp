//===- PlanOps.cpp - Operations of the host plan --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Support/DataType.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe::plan;

/// Extents as "2, 1, 1".
static ParseResult parseExtents(OpAsmParser &parser,
                                DenseI64ArrayAttr &extents) {
  SmallVector<int64_t> values;
  if (parser.parseCommaSeparatedList(
          [&] { return parser.parseInteger(values.emplace_back()); }))
    return failure();
  extents = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

static void printExtents(OpAsmPrinter &printer, Operation *,
                         DenseI64ArrayAttr extents) {
  llvm::interleaveComma(extents.asArrayRef(), printer);
}

template <typename BufferOp>
static OpFoldResult mixedSize(BufferOp op, unsigned dim) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  if (type.isDynamicDim(dim))
    return op.getSizes()[type.getDynamicDimIndex(dim)];
  return Builder(op).getIndexAttr(type.getDimSize(dim));
}

template <typename BufferOp>
static OpFoldResult mixedStride(BufferOp op, unsigned dim) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  int64_t stride = getStaticStride(type, dim);
  if (!ShapedType::isDynamic(stride))
    return Builder(op).getIndexAttr(stride);
  auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout());
  if (!layout)
    return {};
  return op.getStrides()[llvm::count_if(layout.getStrides().take_front(dim),
                                        ShapedType::isDynamic)];
}

#define GET_OP_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanOps.cpp.inc"

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state,
                      StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

/// A manifest is JSON, and its readers take texts as C strings.
static LogicalResult verifyText(Operation *op, StringRef what, StringRef text) {
  if (!llvm::json::isUTF8(text) || text.contains('\0'))
    return op->emitOpError("has a ")
           << what
           << " that is not UTF-8 or has a null character, which a manifest "
              "cannot hold";
  return success();
}

/// Callers find programs and buffers by name.
static LogicalResult verifyName(Operation *op, StringRef name) {
  if (name.empty())
    return op->emitOpError("has an empty name; callers find it by its name");
  return verifyText(op, "name", name);
}

/// The other texts that get into a manifest.
static LogicalResult verifyTexts(Operation &op) {
  if (auto require = dyn_cast<RequireOp>(op))
    return verifyText(&op, "message", require.getMessage());
  if (auto launch = dyn_cast<LaunchOp>(op))
    return verifyText(&op, "kernel's name",
                      launch.getKernel().getLeafReference());
  return success();
}

/// The name that callers know a buffer by, or null for anything else.
static StringAttr getInterfaceName(Operation *op) {
  if (auto input = dyn_cast<InputOp>(op))
    return input.getBufferNameAttr();
  if (auto output = dyn_cast<OutputOp>(op))
    return output.getBufferNameAttr();
  return {};
}

namespace {

/// When a value of a program is known: from the shapes of the inputs, once a
/// device is chosen, or only with the addresses of a run.
enum class Stage { Shapes, Device, Addresses };

} // namespace

/// Finds the stage of an operation's results from those of its operands.
static Stage getStage(Operation &op, const DenseMap<Value, Stage> &stages) {
  if (isa<DeviceAttrOp>(op))
    return Stage::Device;
  if (isa<AlignedOp>(op))
    return Stage::Addresses;
  // The extents of an output follow from shapes, those of a workspace may not.
  Stage stage = Stage::Shapes;
  for (Value operand : op.getOperands())
    if (auto it = stages.find(operand); it != stages.end())
      stage = std::max(stage, it->second);
  return stage;
}

/// Refuses values that are known too late for their use.
static LogicalResult verifyStages(Operation &op,
                                  const DenseMap<Value, Stage> &stages) {
  Stage allowed = Stage::Device;
  StringRef use = "a size";
  auto check = [&](Value value) -> LogicalResult {
    auto it = stages.find(value);
    if (it == stages.end() || it->second <= allowed)
      return success();
    if (it->second == Stage::Device)
      return op.emitOpError("computes ")
             << use
             << " from a property of the device; shapes and requirements are "
                "the same on every device, use it for grids, conditions, "
                "arguments of kernels and workspaces";
    return op.emitOpError("computes ")
           << use
           << " from the alignment of an address, which is not known before "
              "the program runs; use it for conditions of launches and "
              "arguments of kernels";
  };
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    use = "a grid";
    for (Value extent : launch.getGrid())
      if (failed(check(extent)))
        return failure();
    return success();
  }
  if (isa<OutputOp, RequireOp>(op)) {
    allowed = Stage::Shapes;
    use = isa<OutputOp>(op) ? "a shape" : "a requirement";
  } else if (!isa<WorkspaceOp, TensorMapOp>(op)) {
    return success();
  }
  for (Value operand : op.getOperands())
    if (!isa<MemRefType>(operand.getType()) && failed(check(operand)))
      return failure();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (failed(verifyName(*this, getSymName())))
    return failure();
  llvm::StringMap<Operation *> buffers;
  DenseMap<Value, Stage> stages;
  Operation *firstLaunch = nullptr;
  for (Operation &op : *getBodyBlock()) {
    if (!isa_and_nonnull<PlanDialect>(op.getDialect()) &&
        !isAllowedArithmetic(&op))
      return op.emitOpError("is not allowed in a program: a manifest can only "
                            "express operations of fp8moe_plan and arithmetic "
                            "on index and i1 values");
    if (failed(verifyTexts(op)) || failed(verifyStages(op, stages)))
      return failure();
    // A buffer is no number, but the extents of a workspace depend on what its
    // sizes depend on.
    for (Value result : op.getResults())
      stages[result] = getStage(op, stages);
    if (isa<LaunchOp>(op) && !firstLaunch)
      firstLaunch = &op;
    StringAttr name = getInterfaceName(&op);
    if (!name)
      continue;
    if (firstLaunch) {
      InFlightDiagnostic diag =
          op.emitOpError("'")
          << name.getValue()
          << "' is declared after a launch; declare all inputs and outputs "
             "before the first launch";
      diag.attachNote(firstLaunch->getLoc()) << "first launch is here";
      return diag;
    }
    auto [it, inserted] = buffers.try_emplace(name.getValue(), &op);
    if (!inserted) {
      InFlightDiagnostic diag = op.emitOpError("has the name '")
                                << name.getValue()
                                << "' of another buffer of this program";
      diag.attachNote(it->second->getLoc()) << "the other buffer is here";
      return diag;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Checks what all buffers have in common: a type that a manifest can describe,
/// and an alignment that such a buffer can have.
static LogicalResult verifyBuffer(Operation *op, MemRefType type,
                                  int64_t alignment) {
  if (!getManifestDtype(type.getElementType()))
    return op->emitOpError("has elements of type ")
           << type.getElementType()
           << ", which a manifest has no name for; store them as an integer or "
              "float type of 8 to 64 bits";
  if (type.getRank() > ::fp8moe::support::kMaxRank)
    return op->emitOpError("has ")
           << type.getRank() << " dimensions; a manifest describes at most "
           << ::fp8moe::support::kMaxRank << "; merge some";
  if (type.getMemorySpace())
    return op->emitOpError("has memory space ")
           << type.getMemorySpace()
           << "; buffers are in the device's global memory, leave the space "
              "out";
  if (!isa<StridedLayoutAttr>(type.getLayout()) &&
      !type.getLayout().isIdentity())
    return op->emitOpError("has layout ")
           << type.getLayout() << "; expected none or strided<[...]>";
  auto [strides, offset] = type.getStridesAndOffset();
  if (offset != 0)
    return op->emitOpError("has an offset in its layout; buffers start at "
                           "their first element");
  for (int64_t stride : strides)
    if (!ShapedType::isDynamic(stride) && stride < 0)
      return op->emitOpError("has the negative stride ") << stride;

  int64_t elementBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  if (alignment <= 0 || !llvm::isPowerOf2_64(alignment))
    return op->emitOpError("has alignment ")
           << alignment << "; expected a power of two";
  if (alignment < elementBytes)
    return op->emitOpError("has alignment ")
           << alignment << ", less than one element (" << elementBytes
           << " bytes)";
  return success();
}

/// The dynamic entries of an explicit strided layout. An identity layout has
/// none: its strides follow from the extents.
static int64_t countDynamicStrides(MemRefType type) {
  auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout());
  return layout ? llvm::count_if(layout.getStrides(), ShapedType::isDynamic)
                : 0;
}

template <typename BufferOp>
static LogicalResult verifySizedBuffer(BufferOp op) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  if (failed(verifyBuffer(op, type, op.getAlignment())))
    return failure();
  int64_t dynamicSizes = type.getNumDynamicDims();
  if (static_cast<int64_t>(op.getSizes().size()) != dynamicSizes)
    return op.emitOpError("has ")
           << op.getSizes().size() << " sizes, but its type has "
           << dynamicSizes << " dynamic extents";
  int64_t dynamicStrides = countDynamicStrides(type);
  if (static_cast<int64_t>(op.getStrides().size()) != dynamicStrides)
    return op.emitOpError("has ")
           << op.getStrides().size() << " strides, but its type has "
           << dynamicStrides << " dynamic strides";
  return success();
}

LogicalResult InputOp::verify() {
  if (failed(verifyName(*this, getBufferName())))
    return failure();
  return verifyBuffer(*this, cast<MemRefType>(getBuffer().getType()),
                      getAlignment());
}

LogicalResult OutputOp::verify() {
  if (failed(verifyName(*this, getBufferName())))
    return failure();
  if (Value overwritten = getMayOverwrite()) {
    auto input = overwritten.getDefiningOp<InputOp>();
    if (!input)
      return emitOpError("may overwrite an input of the program only");
    auto isOther = [&](Operation *user) {
      return user != getOperation() && isa<OutputOp>(user);
    };
    if (llvm::any_of(overwritten.getUsers(), isOther))
      return emitOpError("may overwrite '")
             << input.getBufferName() << "', as another output may";
    if (overwritten.getType() != getBuffer().getType())
      return emitOpError("may overwrite an input of its own type only, found ")
             << overwritten.getType();
  }
  return verifySizedBuffer(*this);
}

LogicalResult WorkspaceOp::verify() { return verifySizedBuffer(*this); }

//===----------------------------------------------------------------------===//
// DimOp and StrideOp
//===----------------------------------------------------------------------===//

template <typename ExtentOp> static LogicalResult verifyDimension(ExtentOp op) {
  int64_t rank = cast<MemRefType>(op.getBuffer().getType()).getRank();
  int64_t dimension = op.getDimension();
  if (dimension < 0 || dimension >= rank)
    return op.emitOpError("asks for dimension ")
           << dimension << " of a buffer of rank " << rank;
  return success();
}

/// An attribute stays one; a value other than the operation's own result is a
/// valid result of folding.
static OpFoldResult foldExtent(OpFoldResult extent, Value result) {
  return extent && dyn_cast<Value>(extent) != result ? extent : OpFoldResult();
}

LogicalResult DimOp::verify() { return verifyDimension(*this); }

OpFoldResult DimOp::fold(FoldAdaptor) {
  auto type = cast<MemRefType>(getBuffer().getType());
  if (!type.isDynamicDim(getDimension()))
    return Builder(getContext()).getIndexAttr(type.getDimSize(getDimension()));
  if (auto output = getBuffer().getDefiningOp<OutputOp>())
    return foldExtent(output.getMixedSize(getDimension()), getResult());
  if (auto workspace = getBuffer().getDefiningOp<WorkspaceOp>())
    return foldExtent(workspace.getMixedSize(getDimension()), getResult());
  return {};
}

LogicalResult StrideOp::verify() { return verifyDimension(*this); }

OpFoldResult StrideOp::fold(FoldAdaptor) {
  auto type = cast<MemRefType>(getBuffer().getType());
  int64_t stride = getStaticStride(type, getDimension());
  if (!ShapedType::isDynamic(stride))
    return Builder(getContext()).getIndexAttr(stride);
  if (auto output = getBuffer().getDefiningOp<OutputOp>())
    return foldExtent(output.getMixedStride(getDimension()), getResult());
  if (auto workspace = getBuffer().getDefiningOp<WorkspaceOp>())
    return foldExtent(workspace.getMixedStride(getDimension()), getResult());
  return {};
}

/// Replaces the stride of an identity layout by the product of the inner
/// extents, so that nothing depends on a stride that callers do not choose.
///
/// Before:
///   %s = fp8moe_plan.stride %x, 0 : memref<?x?x8xf32>
/// After:
///   %d = fp8moe_plan.dim %x, 1 : memref<?x?x8xf32>
///   %s = arith.muli %d, %c8 : index
static LogicalResult expandIdentityStride(StrideOp op,
                                          PatternRewriter &rewriter) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  if (!type.getLayout().isIdentity())
    return failure();
  ArrayRef<int64_t> inner = type.getShape().drop_front(op.getDimension() + 1);
  // Whether a product that 64 bits do not hold is asked for is known in a
  // call.
  int64_t staticFactor = 1;
  for (int64_t extent : inner)
    if (!ShapedType::isDynamic(extent) &&
        llvm::MulOverflow(staticFactor, extent, staticFactor))
      return failure();
  Value product;
  for (int64_t dim = op.getDimension() + 1; dim < type.getRank(); ++dim) {
    if (!type.isDynamicDim(dim))
      continue;
    Value extent = DimOp::create(rewriter, op.getLoc(), op.getBuffer(),
                                 rewriter.getI64IntegerAttr(dim));
    product =
        product ? arith::MulIOp::create(rewriter, op.getLoc(), product, extent)
                : extent;
  }
  // Without a dynamic inner extent the stride is static: the folder's case.
  if (!product)
    return failure();
  if (staticFactor != 1) {
    Value factor =
        arith::ConstantIndexOp::create(rewriter, op.getLoc(), staticFactor);
    product = arith::MulIOp::create(rewriter, op.getLoc(), product, factor);
  }
  rewriter.replaceOp(op, product);
  return success();
}

void StrideOp::getCanonicalizationPatterns(RewritePatternSet &results,
                                           MLIRContext *) {
  results.add(expandIdentityStride);
}

//===----------------------------------------------------------------------===//
// RequireOp
//===----------------------------------------------------------------------===//

/// A condition that always holds need not be checked.
LogicalResult RequireOp::canonicalize(RequireOp op, PatternRewriter &rewriter) {
  if (!matchPattern(op.getCondition(), m_One()))
    return failure();
  rewriter.eraseOp(op);
  return success();
}
