//===- KernelBuilder.cpp - Builds one GPU kernel --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/KernelBuilder.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The numbers of the address spaces are the same for all vendors.
static constexpr unsigned kGlobalSpace = 1;
static constexpr unsigned kSharedSpace = 3;

/// Eight rows of 128 bytes: the pattern of the widest swizzle repeats after
/// them.
static constexpr int64_t kDynamicSharedAlignment = 1024;

KernelBuilder::KernelBuilder(Location loc, gpu::GPUModuleOp module,
                             StringRef name, const KernelSignature &signature,
                             const TargetInfo &target)
    : ImplicitLocOpBuilder(loc, module.getContext()), target(target),
      module(module), threads(signature.threads) {
  setInsertionPointToEnd(module.getBody());
  unsigned numPointers = signature.tensorMaps + signature.pointers;
  SmallVector<Type> types(numPointers, LLVM::LLVMPointerType::get(context));
  types.append(signature.sizes + signature.hasBlockCount, getI64Type());
  kernel = gpu::GPUFuncOp::create(*this, name, getFunctionType(types, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), getUnitAttr());
  kernel.setKnownBlockSizeAttr(
      getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  for (unsigned index : llvm::seq(signature.tensorMaps))
    kernel.setArgAttr(index, plan::PlanDialect::kTensorMapAttrName,
                      getUnitAttr());
  setInsertionPointToStart(&kernel.getBody().front());
  gpu::ReturnOp::create(*this);
  setInsertionPoint(kernel.getBody().front().getTerminator());

  auto globalType = LLVM::LLVMPointerType::get(context, kGlobalSpace);
  for (BlockArgument argument : kernel.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (index < signature.tensorMaps)
      tensorMaps.push_back(argument);
    else if (index < numPointers)
      pointers.push_back(
          LLVM::AddrSpaceCastOp::create(*this, globalType, argument));
    else
      sizes.push_back(argument);
  }
  if (signature.hasBlockCount)
    numBlocks = named("blocks", sizes.pop_back_val());
  auto position = [&](Value index) -> Value {
    return arith::IndexCastOp::create(*this, getI64Type(), index);
  };
  thread = named("thread",
                 position(gpu::ThreadIdOp::create(*this, gpu::Dimension::x)));
  block = named("block",
                position(gpu::BlockIdOp::create(*this, gpu::Dimension::x)));
}

Value KernelBuilder::getPointer(unsigned index, StringRef name) {
  named(name, pointers[index].getDefiningOp()->getOperand(0));
  return named(name, pointers[index]);
}

Value KernelBuilder::named(StringRef name, Value value) {
  if (name.empty())
    return value;
  Operation *op = value.getDefiningOp();
  if (!op || (op->getNumResults() == 1 && !matchPattern(op, m_Constant())))
    value.setLoc(NameLoc::get(getStringAttr(name), value.getLoc()));
  return value;
}

KernelBuilder::Step::Step(KernelBuilder &b, StringRef name)
    : b(b), outer(b.getLoc()) {
  // A step that is emitted twice is two steps, side by side or not.
  auto step = DistinctAttr::create(b.getStringAttr(name));
  b.setLoc(FusedLoc::get(b.getContext(), {outer}, step));
}

Value KernelBuilder::getSubgroup() { return divU(thread, getSubgroupSize()); }

Value KernelBuilder::getUniformSubgroup() {
  Value subgroup = uniform(truncate(getI32Type(), getSubgroup()));
  return zeroExtend(getI64Type(), subgroup);
}

Value KernelBuilder::getLane() { return remU(thread, getSubgroupSize()); }

Value KernelBuilder::getNumBlocks() {
  if (numBlocks)
    return truncate(getI32Type(), numBlocks);
  Value read = gpu::GridDimOp::create(*this, gpu::Dimension::x);
  return arith::IndexCastOp::create(*this, getI32Type(), read);
}

void KernelBuilder::requestResidentBlocks(int64_t blocks, int64_t sharedBytes) {
  blocks = std::min(blocks, target.countBlocksByShared(sharedBytes));
  if (blocks > 0)
    kernel->setAttr(kernel::KernelDialect::kResidentBlocksAttrName,
                    getI32IntegerAttr(blocks));
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value KernelBuilder::i64(int64_t value) {
  return arith::ConstantIntOp::create(*this, getI64Type(), value);
}

Value KernelBuilder::i32(int64_t value) {
  return arith::ConstantIntOp::create(*this, getI32Type(), value);
}

Value KernelBuilder::i1(bool value) {
  return arith::ConstantIntOp::create(*this, getI1Type(), value);
}

Value KernelBuilder::f32(float value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}

Value KernelBuilder::materialize(Operand operand, Type type) {
  if (operand.value)
    return operand.value;
  return arith::ConstantIntOp::create(*this, type, operand.constant);
}

#define FP8MOE_BINARY(NAME, OP)                                                \
  Value KernelBuilder::NAME(Value lhs, Operand rhs) {                          \
    return createOrFold<arith::OP>(lhs, materialize(rhs, lhs.getType()));      \
  }
FP8MOE_BINARY(add, AddIOp)
FP8MOE_BINARY(sub, SubIOp)
FP8MOE_BINARY(mul, MulIOp)
FP8MOE_BINARY(divU, DivUIOp)
FP8MOE_BINARY(remU, RemUIOp)
FP8MOE_BINARY(minS, MinSIOp)
FP8MOE_BINARY(minU, MinUIOp)
FP8MOE_BINARY(maxS, MaxSIOp)
FP8MOE_BINARY(maxU, MaxUIOp)
FP8MOE_BINARY(bitAnd, AndIOp)
FP8MOE_BINARY(bitOr, OrIOp)
FP8MOE_BINARY(bitXor, XOrIOp)
FP8MOE_BINARY(shiftLeft, ShLIOp)
FP8MOE_BINARY(shiftRight, ShRUIOp)
#undef FP8MOE_BINARY

Value KernelBuilder::ceilDiv(Value lhs, Operand rhs) {
  Value divisor = materialize(rhs, lhs.getType());
  return divU(add(lhs, sub(divisor, 1)), divisor);
}

Value KernelBuilder::roundUp(Value lhs, Operand rhs) {
  return mul(ceilDiv(lhs, rhs), rhs);
}

Value KernelBuilder::clamp(Value value, Operand low, Operand high) {
  return minS(maxS(value, low), high);
}

Value KernelBuilder::compare(arith::CmpIPredicate predicate, Value lhs,
                             Operand rhs) {
  return createOrFold<arith::CmpIOp>(predicate, lhs,
                                     materialize(rhs, lhs.getType()));
}

Value KernelBuilder::equal(Value lhs, Operand rhs) {
  return compare(arith::CmpIPredicate::eq, lhs, rhs);
}

Value KernelBuilder::less(Value lhs, Operand rhs) {
  return compare(arith::CmpIPredicate::slt, lhs, rhs);
}

Value KernelBuilder::lessEqual(Value lhs, Operand rhs) {
  return compare(arith::CmpIPredicate::sle, lhs, rhs);
}

Value KernelBuilder::isNonZero(Value value) {
  return compare(arith::CmpIPredicate::ne, value, 0);
}

Value KernelBuilder::select(Value condition, Value ifTrue, Operand ifFalse) {
  return createOrFold<arith::SelectOp>(condition, ifTrue,
                                       materialize(ifFalse, ifTrue.getType()));
}

Value KernelBuilder::zeroExtend(Type type, Value value) {
  return type == value.getType() ? value
                                 : createOrFold<arith::ExtUIOp>(type, value);
}

Value KernelBuilder::truncate(Type type, Value value) {
  return type == value.getType() ? value
                                 : createOrFold<arith::TruncIOp>(type, value);
}

Value KernelBuilder::widenSigned(Value value) {
  return createOrFold<arith::ExtSIOp>(getI64Type(), value);
}

Value KernelBuilder::bitcast(Type type, Value value) {
  return createOrFold<arith::BitcastOp>(type, value);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

VectorType KernelBuilder::getWordsType() {
  return VectorType::get(4, getI32Type());
}

Value KernelBuilder::zeroWords() {
  return arith::ConstantOp::create(*this, getZeroAttr(getWordsType()));
}

Value KernelBuilder::packWords(ArrayRef<Value> words) {
  auto type = VectorType::get(words.size(), getI32Type());
  return vector::FromElementsOp::create(*this, type, words);
}

SmallVector<Value> KernelBuilder::unpackWords(Value vector) {
  SmallVector<Value> words;
  int64_t count = cast<VectorType>(vector.getType()).getNumElements();
  for (int64_t i : llvm::seq(count))
    words.push_back(createOrFold<vector::ExtractOp>(vector, i));
  return words;
}

SmallVector<Value> KernelBuilder::joinElements(ArrayRef<Value> elements) {
  int64_t bits = elements.front().getType().getIntOrFloatBitWidth();
  int64_t perWord = kWordBits / bits;
  SmallVector<Value> words;
  for (size_t first = 0; first < elements.size(); first += perWord) {
    Value word;
    for (int64_t i : llvm::seq(perWord)) {
      Value element =
          shiftLeft(zeroExtend(getI32Type(), elements[first + i]), i * bits);
      word = word ? bitOr(word, element) : element;
    }
    words.push_back(word);
  }
  return words;
}

SmallVector<Value> KernelBuilder::splitWords(Value words,
                                             IntegerType elementType) {
  SmallVector<Value> elements;
  for (Value word : unpackWords(words))
    for (int64_t bit = 0; bit < kWordBits; bit += elementType.getWidth())
      elements.push_back(truncate(elementType, shiftRight(word, bit)));
  return elements;
}

std::pair<Value, Value> KernelBuilder::splitHalves(Value words) {
  SmallVector<Value> parts = unpackWords(words);
  auto join = [&](Value low, Value high) {
    return bitOr(zeroExtend(getI64Type(), low),
                 shiftLeft(zeroExtend(getI64Type(), high), kWordBits));
  };
  return {join(parts[0], parts[1]), join(parts[2], parts[3])};
}

// The bits of a bf16 are the upper half of the f32 with the same value.

Value KernelBuilder::widenLowBF16(Value word) {
  Step step(*this, "widen_bf16");
  return shiftLeft(word, 16);
}

Value KernelBuilder::widenHighBF16(Value word) {
  Step step(*this, "widen_bf16");
  return bitAnd(word, 0xFFFF0000);
}

Value KernelBuilder::packBF16(Value low, Value high) {
  Value values = vector::FromElementsOp::create(
      *this, VectorType::get(2, getF32Type()), ValueRange{low, high});
  Value pair =
      arith::TruncFOp::create(*this, VectorType::get(2, getBF16Type()), values);
  return LLVM::BitcastOp::create(*this, getI32Type(), pair);
}

SmallVector<Value> KernelBuilder::unpackFloats(ArrayRef<Value> words,
                                               Type elementType) {
  SmallVector<Value> values;
  for (Value word : words) {
    if (elementType.isBF16()) {
      values.push_back(bitcast(getF32Type(), widenLowBF16(word)));
      word = widenHighBF16(word);
    }
    values.push_back(bitcast(getF32Type(), word));
  }
  return values;
}

SmallVector<Value> KernelBuilder::packFloats(ArrayRef<Value> values,
                                             Type elementType) {
  SmallVector<Value> words;
  if (elementType.isBF16())
    for (size_t i = 0; i < values.size(); i += 2)
      words.push_back(packBF16(values[i], values[i + 1]));
  else
    for (Value value : values)
      words.push_back(bitcast(getI32Type(), value));
  return words;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

/// Attaches a loop annotation for LLVM, given as the text of the attribute.
static void annotateLoop(scf::ForOp loop, StringRef annotation) {
  loop->setAttr(
      "llvm.loop_annotation",
      parseAttribute(("#llvm.loop_annotation<" + annotation + ">").str(),
                     loop.getContext()));
}

scf::ForOp KernelBuilder::buildFor(
    Value lower, Value upper, Operand step, ValueRange init,
    function_ref<SmallVector<Value>(Value, ValueRange)> body, bool isRare) {
  auto loop = scf::ForOp::create(
      *this, lower, upper, materialize(step, lower.getType()), init,
      [&](OpBuilder &, Location, Value index, ValueRange carried) {
        scf::YieldOp::create(*this, body(index, carried));
      });
  if (isRare)
    annotateLoop(loop, "unroll = <disable = true>");
  return loop;
}

SmallVector<Value> KernelBuilder::createWhile(
    ValueRange init, TypeRange types,
    function_ref<std::pair<Value, SmallVector<Value>>(ValueRange)> before,
    function_ref<SmallVector<Value>(ValueRange)> body) {
  auto loop = scf::WhileOp::create(
      *this, types, init,
      [&](OpBuilder &, Location, ValueRange carried) {
        auto [condition, values] = before(carried);
        scf::ConditionOp::create(*this, condition, values);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        scf::YieldOp::create(*this, body(values));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value>
KernelBuilder::createWhile(ValueRange init,
                           function_ref<Value(ValueRange)> goesOn,
                           function_ref<SmallVector<Value>(ValueRange)> body) {
  auto before = [&](ValueRange carried) {
    return std::pair(goesOn(carried), llvm::to_vector_of<Value>(carried));
  };
  return createWhile(init, init.getTypes(), before, body);
}

SmallVector<Value>
KernelBuilder::buildIf(Value condition,
                       function_ref<SmallVector<Value>()> thenBody,
                       function_ref<SmallVector<Value>()> elseBody) {
  if (matchPattern(condition, m_One()))
    return thenBody();
  if (matchPattern(condition, m_Zero()))
    return elseBody ? elseBody() : SmallVector<Value>();
  auto fillThen = [&](OpBuilder &, Location) {
    scf::YieldOp::create(*this, thenBody());
  };
  auto fillElse = [&](OpBuilder &, Location) {
    scf::YieldOp::create(*this, elseBody());
  };
  function_ref<void(OpBuilder &, Location)> fillElseIfAny;
  if (elseBody)
    fillElseIfAny = fillElse;
  auto branch = scf::IfOp::create(*this, condition, fillThen, fillElseIfAny);
  return llvm::to_vector_of<Value>(branch.getResults());
}

void KernelBuilder::forEachWorkTile(Value workTiles,
                                    function_ref<void(Value)> body,
                                    bool mostlyOne) {
  assert(numBlocks && "the kernel does not know its number of blocks");
  scf::ForOp loop = buildFor(block, workTiles, numBlocks, {},
                             [&](Value workTile, ValueRange) {
                               body(named("work_tile", workTile));
                               return SmallVector<Value>();
                             });
  if (mostlyOne)
    annotateLoop(loop, "licm = <disable = true>");
}

//===----------------------------------------------------------------------===//
// Threads together
//===----------------------------------------------------------------------===//

void KernelBuilder::createBarrier() { gpu::BarrierOp::create(*this); }

Value KernelBuilder::shuffleXor(Value value, int64_t mask) {
  return gpu::ShuffleOp::create(*this, value, i32(mask), i32(getSubgroupSize()),
                                gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

Value KernelBuilder::shuffleIndex(Value value, Value lane) {
  return gpu::ShuffleOp::create(*this, value, lane, i32(getSubgroupSize()),
                                gpu::ShuffleMode::IDX)
      .getShuffleResult();
}

std::pair<Value, Value> KernelBuilder::exchange(Value value, int64_t mask) {
  auto exchange = kernel::ExchangeOp::create(*this, value, mask);
  return {exchange.getOne(), exchange.getOther()};
}

Value KernelBuilder::reduceLanes(Value value, int64_t stride,
                                 function_ref<Value(Value, Value)> combine) {
  Step step(*this, "reduce_lanes");
  for (int64_t mask = stride; mask < getSubgroupSize(); mask *= 2)
    value = std::apply(combine, exchange(value, mask));
  return value;
}

Value KernelBuilder::maxOfLanes(Value value) {
  return gpu::SubgroupReduceOp::create(
      *this, value, gpu::AllReduceOperation::MAXUI, /*uniform=*/true);
}

Value KernelBuilder::scanLanes(Value value, Value lane,
                               function_ref<Value(Value, Value)> combine) {
  Step step(*this, "scan_lanes");
  for (int64_t distance = 1; distance < getSubgroupSize(); distance *= 2) {
    Value source = sub(lane, distance);
    Value other = shuffleIndex(value, maxS(source, 0));
    value = select(lessEqual(i32(0), source), combine(value, other), value);
  }
  return value;
}

Value KernelBuilder::scanLanesIdempotent(
    Value value, Value lane, function_ref<Value(Value, Value)> combine) {
  Step step(*this, "scan_lanes");
  for (int64_t distance = 1; distance < getSubgroupSize(); distance *= 2)
    value = combine(value, shuffleIndex(value, maxS(sub(lane, distance), 0)));
  return value;
}

Value KernelBuilder::shiftLanes(Value value, Value lane) {
  return shuffleIndex(value, maxS(sub(lane, 1), 0));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The address of a variable of this kernel alone, `value` at first or, without
/// one, undefined.
Value KernelBuilder::createVariable(StringRef name, Type type, Attribute value,
                                    int64_t alignment, unsigned space) {
  std::string symbol = (kernel.getName() + "_" + name).str();
  {
    InsertionGuard guard(*this);
    setInsertionPoint(kernel);
    LLVM::GlobalOp::create(*this, type, /*isConstant=*/false,
                           LLVM::Linkage::Internal, symbol, value, alignment,
                           space);
  }
  return LLVM::AddressOfOp::create(
      *this, LLVM::LLVMPointerType::get(context, space), symbol);
}

Value KernelBuilder::allocateShared(int64_t bytes, StringRef name) {
  return createVariable(name, LLVM::LLVMArrayType::get(getI8Type(), bytes),
                        Attribute(), /*alignment=*/16, kSharedSpace);
}

Value KernelBuilder::allocateGlobalWord(StringRef name) {
  return createVariable(name, getI32Type(), getI32IntegerAttr(0), kWordBytes,
                        kGlobalSpace);
}

Value KernelBuilder::getDynamicShared() {
  constexpr StringLiteral symbol = "fp8moe_dynamic_shared";
  if (!module.lookupSymbol(symbol)) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(*this, LLVM::LLVMArrayType::get(getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External,
                           symbol, Attribute(), kDynamicSharedAlignment,
                           kSharedSpace);
  }
  return LLVM::AddressOfOp::create(
      *this, LLVM::LLVMPointerType::get(context, kSharedSpace), symbol);
}

Value KernelBuilder::offsetBytes(Value pointer, Operand bytes) {
  if (bytes.value)
    return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{bytes.value});
  if (bytes.constant == 0)
    return pointer;
  return LLVM::GEPOp::create(
      *this, pointer.getType(), getI8Type(), pointer,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes.constant)});
}

Value KernelBuilder::load(Type type, Value pointer, int64_t alignment,
                          bool readOnly) {
  return LLVM::LoadOp::create(*this, type, pointer, alignment,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/readOnly);
}

void KernelBuilder::store(Value value, Value pointer, int64_t alignment) {
  LLVM::StoreOp::create(*this, value, pointer, alignment);
}

Value KernelBuilder::loadAtomic(Value pointer, LLVM::AtomicOrdering ordering) {
  return LLVM::LoadOp::create(*this, getI32Type(), pointer, kWordBytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false, /*isInvariantGroup=*/false,
                              ordering, target.getDeviceScope());
}

Value KernelBuilder::loadRelaxed(Value pointer) {
  return loadAtomic(pointer, LLVM::AtomicOrdering::monotonic);
}

Value KernelBuilder::loadAcquire(Value pointer) {
  return loadAtomic(pointer, LLVM::AtomicOrdering::acquire);
}

void KernelBuilder::storeRelaxed(Value word, Value pointer) {
  LLVM::StoreOp::create(*this, word, pointer, kWordBytes, /*isVolatile=*/false,
                        /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::monotonic,
                        target.getDeviceScope());
}

void KernelBuilder::createDeviceFence() {
  LLVM::FenceOp::create(*this, LLVM::AtomicOrdering::acq_rel,
                        target.getDeviceScope());
}
