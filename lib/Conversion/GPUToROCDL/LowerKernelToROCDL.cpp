//===- LowerKernelToROCDL.cpp - Kernel operations to ROCDL ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Kernel/Transforms/Lowering.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/APFloat.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_LOWERKERNELTOROCDL
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;
using kernel::createI32;

static constexpr int64_t kWaveLanes = 64;
static constexpr StringLiteral kWaveScope = "wavefront";
static constexpr StringLiteral kWavesAttr = "rocdl.waves_per_eu";
/// SIMDs of a compute unit; each runs the same number of waves.
static constexpr int64_t kSIMDs = 4;

//===----------------------------------------------------------------------===//
// Words of FP8
//===----------------------------------------------------------------------===//

static Value createLargest(ImplicitLocOpBuilder &b, Type fp8Type) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(fp8Type).getFloatSemantics();
  float largest = APFloat::getLargest(semantics).convertToFloat();
  return arith::ConstantOp::create(b, b.getF32FloatAttr(largest));
}

/// The products of neighbours at once.
static SmallVector<Value> createProducts(ImplicitLocOpBuilder &b,
                                         ValueRange values, ValueRange scales) {
  auto pair = VectorType::get(2, b.getF32Type());
  SmallVector<Value> products;
  for (size_t first = 0; first < values.size(); first += 2) {
    auto getPair = [&](ValueRange numbers) -> Value {
      return vector::FromElementsOp::create(b, pair, numbers.slice(first, 2));
    };
    Value product = arith::MulFOp::create(b, getPair(values), getPair(scales));
    for (int64_t i : {0, 1})
      products.push_back(vector::ExtractOp::create(b, product, i));
  }
  return products;
}

/// `value` between -`limit` and `limit`. The smallest of the three where one
/// is a NaN, which is the one that is none.
static Value createMedian(ImplicitLocOpBuilder &b, Value value, Value limit) {
  Value low = arith::NegFOp::create(b, limit);
  return ROCDL::FMed3Op::create(b, b.getF32Type(), value, low, limit);
}

/// The limit of products of `scale`: none, which a NaN is to createMedian,
/// where products may be NaN, as they stay what they are then.
static Value createLimit(ImplicitLocOpBuilder &b, Value scale, Type fp8Type) {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value nan = arith::ConstantOp::create(
      b, b.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN()));
  Value isNumber =
      arith::CmpFOp::create(b, arith::CmpFPredicate::ONE, scale, zero);
  return arith::SelectOp::create(b, isNumber, createLargest(b, fp8Type), nan);
}

/// The conversion turns what is too large into a NaN or an infinity, and the
/// median would turn a NaN into a number.
static Value createClamp(ImplicitLocOpBuilder &b, Value value, Type fp8Type) {
  Value median = createMedian(b, value, createLargest(b, fp8Type));
  Value isNaN =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  return arith::SelectOp::create(b, isNaN, value, median);
}

static Value convertPair(ImplicitLocOpBuilder &b, Value first, Value second,
                         Value word, bool upperHalf, Type fp8Type) {
  if (getFp8Format(fp8Type) == Fp8Format::E4M3)
    return ROCDL::CvtPkFp8F32Op::create(b, b.getI32Type(), first, second, word,
                                        upperHalf);
  return ROCDL::CvtPkBf8F32Op::create(b, b.getI32Type(), first, second, word,
                                      upperHalf);
}

/// The bytes of four numbers; each half of the word is written by itself.
static Value convert(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                     Type fp8Type) {
  Value word = LLVM::PoisonOp::create(b, b.getI32Type());
  word =
      convertPair(b, values[0], values[1], word, /*upperHalf=*/false, fp8Type);
  return convertPair(b, values[2], values[3], word, /*upperHalf=*/true,
                     fp8Type);
}

// %w = fp8moe_kernel.pack_fp8 %a, %b, %c, %d times %s, %s, %s, %s : f8E4M3FN
//   -->
// %p:2 = vector<2xf32> products of neighbours
// %m:4 = rocdl.fmed3 of each product and the largest number, or the product if
//        it is a NaN          (less where the products have a bound)
// %w = rocdl.cvt.pk.fp8.f32 %m#0, %m#1, then %m#2, %m#3
static SmallVector<Value> lowerPackFP8(kernel::PackFP8Op op,
                                       ImplicitLocOpBuilder &b) {
  Type fp8Type = op.getFp8Type();
  ValueRange scales = op.getScales();
  SmallVector<Value> values(op.getValues()), words;
  if (!scales.empty())
    values = createProducts(b, values, scales);
  for (auto [index, value] : llvm::enumerate(values)) {
    if (op.getProducts() == kernel::FP8Products::Any)
      value = createClamp(b, value, fp8Type);
    else if (op.getProducts() == kernel::FP8Products::OfOwnScale)
      value = createMedian(b, value, createLimit(b, scales[index], fp8Type));
  }
  for (ArrayRef<Value> rest = values; !rest.empty(); rest = rest.drop_front(4))
    words.push_back(convert(b, rest.take_front(4), fp8Type));
  return words;
}

// fp8moe_kernel.pack_fp8_pair --> rocdl.cvt.pk.fp8.f32 of clamped numbers
static Value lowerPackFP8Pair(kernel::PackFP8PairOp op,
                              ImplicitLocOpBuilder &b) {
  Type fp8Type = op.getFp8Type();
  Value word = convertPair(b, createClamp(b, op.getLow(), fp8Type),
                           createClamp(b, op.getHigh(), fp8Type),
                           LLVM::PoisonOp::create(b, b.getI32Type()),
                           /*upperHalf=*/false, fp8Type);
  return arith::TruncIOp::create(b, op.getType(), word);
}

// %v:4 = fp8moe_kernel.unpack_fp8 %w : f8E4M3FN
//   -->
// %low = rocdl.cvt.pk.f32.fp8 %w[false]
// %high = rocdl.cvt.pk.f32.fp8 %w[true]
static SmallVector<Value> lowerUnpackFP8(kernel::UnpackFP8Op op,
                                         ImplicitLocOpBuilder &b) {
  auto pair = VectorType::get(2, b.getF32Type());
  SmallVector<Value> values;
  for (bool upperHalf : {false, true}) {
    Value converted;
    if (getFp8Format(op.getFp8Type()) == Fp8Format::E4M3)
      converted =
          ROCDL::CvtPkF32Fp8Op::create(b, pair, op.getWord(), upperHalf);
    else
      converted =
          ROCDL::CvtPkF32Bf8Op::create(b, pair, op.getWord(), upperHalf);
    for (int64_t i : {0, 1})
      values.push_back(vector::ExtractOp::create(b, converted, i));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Other words
//===----------------------------------------------------------------------===//

/// Moves the upper half of each group of bits in `mask` up by `distance`.
static Value spreadBits(ImplicitLocOpBuilder &b, Value word, int64_t distance,
                        int64_t mask) {
  Value shifted = arith::ShLIOp::create(b, word, createI32(b, distance));
  Value both = arith::OrIOp::create(b, word, shifted);
  return arith::AndIOp::create(b, both, createI32(b, mask));
}

// fp8moe_kernel.permute_bytes %low, %high, %selector
//   -->
// llvm.amdgcn.perm(%high, %low, %bytes)   (a byte for each four bits of the
//                                         selector)
static Value lowerPermuteBytes(kernel::PermuteBytesOp op,
                               ImplicitLocOpBuilder &b) {
  Value selector = op.getSelector();
  selector = spreadBits(b, selector, /*distance=*/8, /*mask=*/0x00FF00FF);
  selector = spreadBits(b, selector, /*distance=*/4, /*mask=*/0x0F0F0F0F);
  return LLVM::CallIntrinsicOp::create(
             b, b.getI32Type(), b.getStringAttr("llvm.amdgcn.perm"),
             ValueRange{op.getHigh(), op.getLow(), selector})
      .getResults();
}

static bool isPackedMax(arith::MaxUIOp op) {
  return op.getType() ==
         VectorType::get(8, IntegerType::get(op.getContext(), 16));
}

// arith.maxui : vector<8xi16>
//   -->
// four of arith.maxui : vector<2xi16>     (LLVM would divide the vector into
//                                         single numbers)
static LogicalResult lowerPackedMax(arith::MaxUIOp op,
                                    PatternRewriter &rewriter) {
  if (!isPackedMax(op))
    return failure();
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  auto halves = VectorType::get(2, b.getI16Type());
  auto quads = VectorType::get(4, b.getI32Type());
  Value lhs = vector::BitCastOp::create(b, quads, op.getLhs());
  Value rhs = vector::BitCastOp::create(b, quads, op.getRhs());
  SmallVector<Value> words;
  for (int64_t i : llvm::seq<int64_t>(4)) {
    auto getHalves = [&](Value vector) -> Value {
      return LLVM::BitcastOp::create(b, halves,
                                     vector::ExtractOp::create(b, vector, i));
    };
    Value larger = arith::MaxUIOp::create(b, getHalves(lhs), getHalves(rhs));
    words.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), larger));
  }
  Value joined = vector::FromElementsOp::create(b, quads, words);
  rewriter.replaceOpWithNewOp<vector::BitCastOp>(op, op.getType(), joined);
  return success();
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

// fp8moe_kernel.vote_any %c --> rocdl.ballot %c != 0
static Value lowerVoteAny(kernel::VoteAnyOp op, ImplicitLocOpBuilder &b) {
  Value lanes = ROCDL::BallotOp::create(b, b.getIntegerType(kWaveLanes),
                                        op.getCondition());
  Value none = arith::ConstantIntOp::create(b, lanes.getType(), 0);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, lanes, none);
}

// fp8moe_kernel.exchange %x, 16
//   -->
// rocdl.permlane16.swap %x, %x            (Feature::RowSwaps; masks 16 and 32)
// %x, gpu.shuffle xor %x, 16, 64          (else)
//
// Swapping rows between two copies leaves both values in each lane. A shuffle
// would also have to find out which of them is the other lane's.
template <bool swapsRows>
static SmallVector<Value> lowerExchange(kernel::ExchangeOp op,
                                        ImplicitLocOpBuilder &b) {
  Value value = op.getValue();
  int64_t mask = op.getMask();
  if (!swapsRows || (mask != 16 && mask != 32)) {
    auto shuffle =
        gpu::ShuffleOp::create(b, value, createI32(b, mask),
                               createI32(b, kWaveLanes), gpu::ShuffleMode::XOR);
    return {value, shuffle.getShuffleResult()};
  }
  Type pair = LLVM::LLVMStructType::getLiteral(
      b.getContext(), {b.getI32Type(), b.getI32Type()});
  Value swapped;
  if (mask == 16)
    swapped =
        ROCDL::Permlane16SwapOp::create(b, pair, value, value, /*fi=*/false,
                                        /*boundControl=*/false);
  else
    swapped =
        ROCDL::Permlane32SwapOp::create(b, pair, value, value, /*fi=*/false,
                                        /*boundControl=*/false);
  return {LLVM::ExtractValueOp::create(b, swapped, 0),
          LLVM::ExtractValueOp::create(b, swapped, 1)};
}

// gpu.subgroup_reduce maxui %x uniform : (i32) -> i32
//   -->
// six times: %one, %other = fp8moe_kernel.exchange %x, 1 (2, 4, ... 32)
//            %x = arith.maxui %one, %other
static Value lowerSubgroupMax(gpu::SubgroupReduceOp op,
                              ImplicitLocOpBuilder &b) {
  Value value = op.getValue();
  for (int64_t mask = 1; mask < kWaveLanes; mask *= 2) {
    auto exchange = kernel::ExchangeOp::create(b, value, mask);
    value = arith::MaxUIOp::create(b, exchange.getOne(), exchange.getOther());
  }
  return value;
}

// fp8moe_kernel.subgroup_barrier
//   -->
// llvm.fence syncscope("wavefront") release
// llvm.amdgcn.wave.barrier()
// llvm.fence syncscope("wavefront") acquire
//
// The lanes of a wave run in lockstep, so only compilers must not reorder.
static void lowerSubgroupBarrier(kernel::SubgroupBarrierOp op,
                                 ImplicitLocOpBuilder &b) {
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::release, kWaveScope);
  LLVM::CallIntrinsicOp::create(b, b.getStringAttr("llvm.amdgcn.wave.barrier"),
                                ValueRange{});
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acquire, kWaveScope);
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// s_waitcnt of gfx9: vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in
/// 11:8. Nothing is exported.
static int64_t encodeWaitCount(int64_t loads, int64_t sharedAccesses) {
  constexpr int64_t anyExports = 7;
  return (loads & 15) | (loads >> 4) << 14 | anyExports << 4 |
         sharedAccesses << 8;
}

// fp8moe_kernel.wait_accesses loads 8 shared 0 --> rocdl.s.waitcnt 120
static void lowerWaitAccesses(kernel::WaitAccessesOp op,
                              ImplicitLocOpBuilder &b) {
  constexpr uint32_t anyLoads = 63;
  int64_t count =
      encodeWaitCount(op.getLoads().value_or(anyLoads), op.getShared());
  ROCDL::SWaitcntOp::create(b, b.getI32IntegerAttr(count));
}

static void createSchedulingFence(ImplicitLocOpBuilder &b) {
  ROCDL::SchedBarrier::create(b, b.getI32IntegerAttr(0));
  LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, "singlethread");
}

// fp8moe_kernel.scheduling_fence
//   -->
// rocdl.sched.barrier 0
// llvm.fence syncscope("singlethread") acq_rel
static void lowerSchedulingFence(kernel::SchedulingFenceOp op,
                                 ImplicitLocOpBuilder &b) {
  createSchedulingFence(b);
}

// fp8moe_kernel.execution_barrier --> rocdl.s.barrier between scheduling fences
static void lowerExecutionBarrier(kernel::ExecutionBarrierOp op,
                                  ImplicitLocOpBuilder &b) {
  createSchedulingFence(b);
  ROCDL::SBarrierOp::create(b);
  createSchedulingFence(b);
}

// fp8moe_kernel.set_priority 1 --> rocdl.s.setprio 1
static void lowerSetPriority(kernel::SetPriorityOp op,
                             ImplicitLocOpBuilder &b) {
  ROCDL::SetPrioOp::create(b, b.getI16IntegerAttr(op.getPriority()));
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// "fp8" or "bf8", as the names of instructions say it.
static StringRef getElementName(Type type) {
  return getFp8Format(type) == Fp8Format::E4M3 ? "fp8" : "bf8";
}

/// How v_mfma_f32_16x16x128_f8f6f4 numbers its formats.
static int64_t getFormatNumber(Type type) {
  return getFp8Format(type) == Fp8Format::E4M3 ? 0 : 1;
}

/// The instruction that multiplies elements of these types.
static std::string getInstruction(kernel::MfmaOp op) {
  bool isLarge = op.getEdge() == 32;
  if (op.getAType().isBF16())
    return isLarge ? "f32.32x32x8bf16.1k" : "f32.16x16x32.bf16";
  if (!isLarge)
    return "scale.f32.16x16x128.f8f6f4";
  return ("f32.32x32x16." + getElementName(op.getAType()) + "." +
          getElementName(op.getBType()))
      .str();
}

// fp8moe_kernel.mfma %a, %b, %c : f8E4M3FNUZ, f8E5M2FNUZ, i64, vector<16xf32>
//   -->
// rocdl.mfma.f32.32x32x16.fp8.bf8 %a, %b, %c, 0, 0, 0
//
// Scales that are zero constants select the instruction without scales. Each
// has a number before it: which byte it is.
static Value lowerMfma(kernel::MfmaOp op, ImplicitLocOpBuilder &b) {
  Value zero = createI32(b, 0);
  SmallVector<Value> operands{op.getA(), op.getB(), op.getAccumulators()};
  std::string instruction = getInstruction(op);
  if (StringRef(instruction).starts_with("scale")) {
    SmallVector<Value> scales(op.getScales());
    scales.resize(2, zero);
    operands.append({createI32(b, getFormatNumber(op.getAType())),
                     createI32(b, getFormatNumber(op.getBType())), zero,
                     scales[0], zero, scales[1]});
  } else {
    operands.append(3, zero);
  }
  OperationState state(op.getLoc(), "rocdl.mfma." + instruction);
  state.addOperands(operands);
  state.addTypes(op.getType());
  return b.create(state)->getResult(0);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// fp8moe_kernel.resident_blocks becomes rocdl.waves_per_eu: LLVM holds more in
/// registers than it has to when it is not told. At least one wave, and no more
/// than a SIMD has room for.
static LogicalResult lowerResidentBlocks(gpu::GPUFuncOp function,
                                         const TargetInfo &target) {
  auto blocks = llvm::cast_if_present<IntegerAttr>(
      function->removeAttr(kernel::KernelDialect::kResidentBlocksAttrName));
  if (!blocks)
    return success();
  DenseI32ArrayAttr size = function.getKnownBlockSizeAttr();
  if (!size)
    return function.emitError("asks for ")
           << blocks.getInt()
           << " resident blocks of unknown size; add 'known_block_size'";
  int64_t threads = 1;
  for (int32_t extent : size.asArrayRef())
    threads *= extent;
  int64_t waves =
      blocks.getInt() * llvm::divideCeil(threads, kWaveLanes) / kSIMDs;
  int64_t most = target.maxThreadsPerMultiprocessor / kWaveLanes / kSIMDs;
  function->setAttr(kWavesAttr, Builder(function).getI32IntegerAttr(
                                    std::clamp<int64_t>(waves, 1, most)));
  return success();
}

namespace {
struct LowerKernelToROCDL
    : fp8moe::impl::LowerKernelToROCDLBase<LowerKernelToROCDL> {
  using Base::Base;

  void runOnOperation() override {
    gpu::GPUFuncOp function = getOperation();
    const TargetInfo *info = lookupTarget(chip);
    if (!info || info->kind != TargetKind::ROCDL) {
      function.emitError("cannot be lowered for the chip '")
          << chip << "', which is no known one of AMD; set the pass option "
          << "'chip' to one, such as gfx942";
      return signalPassFailure();
    }
    if (failed(lowerResidentBlocks(function, *info)))
      return signalPassFailure();
    ConversionTarget target(getContext());
    target.addDynamicallyLegalOp<arith::MaxUIOp>(
        [](arith::MaxUIOp op) { return !isPackedMax(op); });
    RewritePatternSet patterns(&getContext());
    patterns.add(lowerPackedMax);
    kernel::addLowerings(
        patterns, lowerPackFP8, lowerPackFP8Pair, lowerUnpackFP8,
        lowerPermuteBytes,
        kernel::replaceBy<kernel::UniformOp, ROCDL::ReadfirstlaneOp>,
        kernel::replaceBy<kernel::BallotOp, ROCDL::BallotOp>, lowerVoteAny,
        info->has(Feature::RowSwaps) ? lowerExchange<true>
                                     : lowerExchange<false>,
        lowerSubgroupMax, lowerSubgroupBarrier,
        kernel::replaceBy<kernel::ReadLaneOp, ROCDL::ReadlaneOp>,
        lowerWaitAccesses, lowerSchedulingFence, lowerExecutionBarrier,
        lowerSetPriority, lowerMfma);
    kernel::Vendor vendor = {"AMD", kWaveLanes, info->fp8,
                             /*laneRegister=*/"=v,0",
                             /*subgroupRegister=*/"=s,0"};
    if (failed(
            kernel::lowerKernel(function, vendor, target, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
