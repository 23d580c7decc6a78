//===- KernelDialect.cpp - The kernel dialect -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Target/NVIDIA.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::kernel;
using nvidia::kWarpThreads;

#include "fp8moe/Dialect/Kernel/IR/KernelDialect.cpp.inc"

#include "fp8moe/Dialect/Kernel/IR/KernelEnums.cpp.inc"

#define GET_OP_CLASSES
#include "fp8moe/Dialect/Kernel/IR/KernelOps.cpp.inc"

namespace {

/// Prints the accumulators of a wgmma, structs of up to 128 f32, as
/// !accumulators64 and the like.
struct AccumulatorAlias : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    constexpr size_t leastElements = 16;
    auto accumulators = dyn_cast<LLVM::LLVMStructType>(type);
    if (!accumulators || accumulators.isIdentified() ||
        accumulators.getBody().size() < leastElements ||
        !llvm::all_of(accumulators.getBody(),
                      [](Type element) { return element.isF32(); }))
      return AliasResult::NoAlias;
    os << "accumulators" << accumulators.getBody().size();
    return AliasResult::FinalAlias;
  }
};

} // namespace

void KernelDialect::initialize() {
  addInterfaces<AccumulatorAlias>();
  addOperations<
#define GET_OP_LIST
#include "fp8moe/Dialect/Kernel/IR/KernelOps.cpp.inc"
      >();
}

LogicalResult
KernelDialect::verifyOperationAttribute(Operation *op,
                                        NamedAttribute attribute) {
  if (attribute.getName() != kResidentBlocksAttrName)
    return op->emitError("has the unknown attribute '")
           << attribute.getName().getValue() << "'; this dialect knows '"
           << kResidentBlocksAttrName << "'";
  auto blocks = dyn_cast<IntegerAttr>(attribute.getValue());
  if (!isa<gpu::GPUFuncOp>(op) || !blocks || !blocks.getType().isInteger(32) ||
      blocks.getInt() < 1)
    return op->emitError("has '")
           << kResidentBlocksAttrName << " = " << attribute.getValue()
           << "'; expected a positive i32 on a gpu.func";
  return success();
}

//===----------------------------------------------------------------------===//
// Words and lanes
//===----------------------------------------------------------------------===//

static LogicalResult verifyFP8(Operation *op, Type type) {
  if (getFp8Flavour(type))
    return success();
  return op->emitOpError("converts ")
         << type << "; expected f8E4M3FN, f8E5M2, f8E4M3FNUZ or f8E5M2FNUZ";
}

static constexpr unsigned kFP8PerWord = 4;

LogicalResult PackFP8Op::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location>,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.assign(adaptor.getValues().size() / kFP8PerWord,
               IntegerType::get(context, 32));
  return success();
}

LogicalResult PackFP8Op::verify() {
  size_t values = getValues().size(), scales = getScales().size();
  if (values == 0 || values % kFP8PerWord != 0)
    return emitOpError("packs ")
           << values << " values; expected a positive multiple of "
           << kFP8PerWord;
  if (scales != 0 && scales != values)
    return emitOpError("has ")
           << scales << " scales for " << values
           << " values; expected none or one for each value";
  if (scales == 0 && getProducts() != FP8Products::Any)
    return emitOpError("bounds products, but has no scales; add 'times', or "
                       "leave out 'products'");
  return verifyFP8(*this, getFp8Type());
}

LogicalResult PackFP8PairOp::verify() { return verifyFP8(*this, getFp8Type()); }

LogicalResult UnpackFP8Op::verify() { return verifyFP8(*this, getFp8Type()); }

LogicalResult ExchangeOp::verify() {
  constexpr uint32_t largest = 32;
  uint32_t mask = getMask();
  if (llvm::isPowerOf2_32(mask) && mask <= largest)
    return success();
  return emitOpError("has mask ")
         << mask << "; expected a power of two from 1 to " << largest;
}

//===----------------------------------------------------------------------===//
// Synchronization
//===----------------------------------------------------------------------===//

LogicalResult SharedPartOp::verify() {
  bool isOfRing =
      getUse() != SharedUse::Memory && getUse() != SharedUse::MBarrier;
  if (isOfRing == static_cast<bool>(getStage()))
    return success();
  if (isOfRing)
    return emitOpError("names '")
           << stringifySharedUse(getUse())
           << "' of a ring without a stage; add '[%stage]'";
  return emitOpError("has a stage, but '")
         << stringifySharedUse(getUse())
         << "' is no part of a ring; expected 'stage', 'full' or 'empty'";
}

LogicalResult MBarrierInitOp::verify() {
  // PTX ISA, "mbarrier.init".
  constexpr uint32_t mostArrivals = (1 << 20) - 1;
  if (getArrivals() >= 1 && getArrivals() <= mostArrivals)
    return success();
  return emitOpError("asks for ")
         << getArrivals() << " arrivals; expected 1 to " << mostArrivals;
}

static LogicalResult verifyNamedBarrier(Operation *op, Value id,
                                        uint32_t threads) {
  constexpr uint32_t barriers = 16, mostThreads = 1024;
  APInt number;
  if (matchPattern(id, m_ConstantInt(&number)) && number.uge(barriers))
    return op->emitOpError("names barrier ")
           << number.getSExtValue() << "; a block has 0 to " << barriers - 1;
  if (threads > 0 && threads <= mostThreads && threads % kWarpThreads == 0)
    return success();
  return op->emitOpError("is for ")
         << threads << " threads; expected a positive multiple of "
         << kWarpThreads << " up to " << mostThreads;
}

LogicalResult NamedBarrierOp::verify() {
  return verifyNamedBarrier(*this, getId(), getThreads());
}

LogicalResult NamedBarrierArriveOp::verify() {
  return verifyNamedBarrier(*this, getId(), getThreads());
}

LogicalResult SetRegistersOp::verify() {
  // PTX ISA, "setmaxnreg".
  constexpr uint32_t least = 24, most = 256, unit = 8;
  uint32_t registers = getRegisters();
  if (registers >= least && registers <= most && registers % unit == 0)
    return success();
  return emitOpError("asks for ")
         << registers << " registers; expected a multiple of " << unit
         << " from " << least << " to " << most;
}

LogicalResult WaitAccessesOp::verify() {
  // s_waitcnt of gfx9 has six and four bits.
  constexpr uint32_t mostLoads = 63, mostShared = 15;
  if (getLoads().value_or(0) <= mostLoads && getShared() <= mostShared)
    return success();
  return emitOpError("leaves more under way than can be counted; expected at "
                     "most ")
         << mostLoads << " loads and " << mostShared
         << " accesses to shared memory";
}

LogicalResult SetPriorityOp::verify() {
  constexpr uint32_t largest = 3;
  if (getPriority() <= largest)
    return success();
  return emitOpError("has priority ")
         << getPriority() << "; expected 0 to " << largest;
}

//===----------------------------------------------------------------------===//
// Copies and matrices
//===----------------------------------------------------------------------===//

static LogicalResult verifyCoordinates(Operation *op, ValueRange coordinates) {
  constexpr size_t mostDimensions = 5;
  if (!coordinates.empty() && coordinates.size() <= mostDimensions)
    return success();
  return op->emitOpError("has ")
         << coordinates.size() << " coordinates; a tensor map has 1 to "
         << mostDimensions << " dimensions";
}

LogicalResult TensorLoadOp::verify() {
  return verifyCoordinates(*this, getCoordinates());
}

LogicalResult TensorStoreOp::verify() {
  return verifyCoordinates(*this, getCoordinates());
}

LogicalResult TensorAddOp::verify() {
  return verifyCoordinates(*this, getCoordinates());
}

LogicalResult TensorPrefetchOp::verify() {
  return verifyCoordinates(*this, getCoordinates());
}

static LogicalResult verifyFour(Operation *op, ValueRange values) {
  constexpr size_t expected = 4;
  if (values.size() == expected)
    return success();
  return op->emitOpError("has ")
         << values.size() << " values; expected " << expected;
}

LogicalResult AddFloatsOp::verify() { return verifyFour(*this, getValues()); }

LogicalResult StoreMatricesOp::verify() {
  return verifyFour(*this, getWords());
}

/// A thread has half as many accumulators as B has columns.
static constexpr int64_t kColumnsPerAccumulator = 2;

int64_t WgmmaOp::getColumns() {
  auto type = cast<LLVM::LLVMStructType>(getAccumulators().getType());
  return kColumnsPerAccumulator * static_cast<int64_t>(type.getBody().size());
}

LogicalResult WgmmaOp::verify() {
  constexpr int64_t mostColumns = 256, unit = 8;
  auto type = cast<LLVM::LLVMStructType>(getAccumulators().getType());
  bool areFloats =
      llvm::all_of(type.getBody(), [](Type type) { return type.isF32(); });
  int64_t columns = getColumns();
  if (!areFloats || columns < unit || columns > mostColumns || columns % unit)
    return emitOpError("has accumulators ")
           << type
           << "; expected a struct of N / 2 f32, where N is a multiple of "
           << unit << " up to " << mostColumns;
  bool areFP8 = getFp8Flavour(getAType()) == Fp8Flavour::FN &&
                getFp8Flavour(getBType()) == Fp8Flavour::FN;
  bool areBF16 = getAType().isBF16() && getBType().isBF16();
  if (!areFP8 && !areBF16)
    return emitOpError("multiplies ")
           << getAType() << " by " << getBType()
           << "; expected two of f8E4M3FN and f8E5M2, or bf16 twice";
  if (areFP8 && (getMnMajorA() || getMnMajorB()))
    return emitOpError("has an MN-major operand of FP8; only operands of bf16 "
                       "may be MN-major");
  return success();
}

/// Edges by the accumulators of a lane.
static constexpr int64_t kLargeEdge = 32, kSmallEdge = 16;

int64_t MfmaOp::getEdge() {
  constexpr int64_t lanes = 64;
  int64_t accumulators = getType().getNumElements();
  return accumulators == kLargeEdge * kLargeEdge / lanes   ? kLargeEdge
         : accumulators == kSmallEdge * kSmallEdge / lanes ? kSmallEdge
                                                           : 0;
}

/// The operand of a lane.
static Type getMfmaOperandType(int64_t edge, bool isBF16, Builder b) {
  if (edge == kLargeEdge)
    return isBF16 ? Type(VectorType::get(4, b.getI16Type()))
                  : Type(b.getI64Type());
  return isBF16 ? VectorType::get(8, b.getBF16Type())
                : VectorType::get(8, b.getI32Type());
}

LogicalResult MfmaOp::verify() {
  int64_t edge = getEdge();
  if (!edge)
    return emitOpError("has accumulators ")
           << getType() << "; expected vector<16xf32> or vector<4xf32>";
  bool areBF16 = getAType().isBF16() && getBType().isBF16();
  if (!areBF16 && !(getFp8Flavour(getAType()) && getFp8Flavour(getBType())))
    return emitOpError("multiplies ") << getAType() << " by " << getBType()
                                      << "; expected FP8 twice, or bf16 twice";
  Type expected = getMfmaOperandType(edge, areBF16, Builder(getContext()));
  if (getA().getType() != expected)
    return emitOpError("has operands of ")
           << getA().getType() << "; expected " << expected;
  size_t scales = getScales().size();
  if (scales == 0 || (scales == 2 && edge == kSmallEdge && !areBF16))
    return success();
  return emitOpError("has ")
         << scales
         << " scales; expected two of FP8 with vector<4xf32>, or none";
}

SmallVector<SharedPartOp> fp8moe::kernel::getSharedParts(Value address) {
  SmallVector<SharedPartOp> parts;
  SmallVector<Value> rest{address};
  DenseSet<Value> seen;
  while (!rest.empty()) {
    Value value = rest.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (auto part = dyn_cast<SharedPartOp>(op))
      parts.push_back(part);
    else if (isa<LLVM::GEPOp, LLVM::PtrToIntOp>(op) ||
             isa<arith::ArithDialect>(op->getDialect()))
      llvm::append_range(rest, op->getOperands());
  }
  return parts;
}
