//===- GPUToROCDL.cpp - AMD hooks and lowering ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/GPUToROCDL/GPUToROCDL.h"
#include "mlir/Conversion/GPUToROCDL/GPUToROCDLPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
class ROCDLTargetHooks final : public TargetHooks {
public:
  using TargetHooks::TargetHooks;

  /// known_block_size already says all.
  void annotateKernel(gpu::GPUFuncOp kernel) const override {}

  /// LLVM holds more in registers than it has to when it is not told.
  void requestResidentBlocks(gpu::GPUFuncOp kernel, int64_t blocks,
                             int64_t sharedBytes = 0) const override {
    blocks = std::min(blocks, target.countBlocksByShared(sharedBytes));
    int64_t threads = kernel.getKnownBlockSizeAttr().asArrayRef().front();
    int64_t waves = blocks * threads / getSubgroupSize() / kSIMDs;
    if (waves > 0)
      kernel->setAttr(
          kWavesAttr,
          IntegerAttr::get(IntegerType::get(kernel.getContext(), 32), waves));
  }

  bool takesBackRequests() const override { return false; }

  bool supportsFP8(Type type) const override {
    return target.fp8 == Fp8Flavour::FNUZ
               ? isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(type)
               : isa<Float8E4M3FNType, Float8E5M2Type>(type);
  }

  Value createPackFP8(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                      Type fp8Type) const override {
    SmallVector<Value> clamped;
    for (Value value : values)
      clamped.push_back(createClamp(b, value, fp8Type));
    return convert(b, clamped, fp8Type);
  }

  SmallVector<Value> createPackScaledFP8(ImplicitLocOpBuilder &b,
                                         ArrayRef<Value> values,
                                         ArrayRef<Value> scales, Type fp8Type,
                                         FP8Products products) const override {
    SmallVector<Value> words, scaled = createProducts(b, values, scales);
    for (auto [value, scale] : llvm::zip_equal(scaled, scales)) {
      if (products == FP8Products::Any)
        value = createClamp(b, value, fp8Type);
      else if (products == FP8Products::OfOwnScale)
        value = createMedian(b, value, createLimit(b, scale, fp8Type));
    }
    for (size_t first = 0; first < scaled.size(); first += 4)
      words.push_back(convert(b, ArrayRef(scaled).slice(first, 4), fp8Type));
    return words;
  }

  SmallVector<Value> createUnpackFP8(ImplicitLocOpBuilder &b, Value word,
                                     Type fp8Type) const override {
    auto pair = VectorType::get(2, b.getF32Type());
    bool isE4M3 = isa<Float8E4M3FNType, Float8E4M3FNUZType>(fp8Type);
    SmallVector<Value> values;
    for (bool upperHalf : {false, true}) {
      Value converted =
          isE4M3
              ? Value(ROCDL::CvtPkF32Fp8Op::create(b, pair, word, upperHalf))
              : Value(ROCDL::CvtPkF32Bf8Op::create(b, pair, word, upperHalf));
      for (int64_t i : {0, 1})
        values.push_back(vector::ExtractOp::create(b, converted, i));
    }
    return values;
  }

  Value createPackBF16(ImplicitLocOpBuilder &b, Value low,
                       Value high) const override {
    Value values = vector::FromElementsOp::create(
        b, VectorType::get(2, b.getF32Type()), ValueRange{low, high});
    Value pair =
        arith::TruncFOp::create(b, VectorType::get(2, b.getBF16Type()), values);
    return LLVM::BitcastOp::create(b, b.getI32Type(), pair);
  }

  /// LLVM divides vectors of eight into single numbers.
  Value createMaxU16(ImplicitLocOpBuilder &b, Value lhs,
                     Value rhs) const override {
    auto halves = VectorType::get(2, b.getI16Type());
    SmallVector<Value> words;
    for (int64_t i : llvm::seq<int64_t>(4)) {
      auto getHalves = [&](Value vector) -> Value {
        return LLVM::BitcastOp::create(b, halves,
                                       vector::ExtractOp::create(b, vector, i));
      };
      Value larger = arith::MaxUIOp::create(b, getHalves(lhs), getHalves(rhs));
      words.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), larger));
    }
    return vector::FromElementsOp::create(b, cast<VectorType>(lhs.getType()),
                                          words);
  }

  Value createPermuteBytes(ImplicitLocOpBuilder &b, Value low, Value high,
                           Value selector) const override {
    // v_perm_b32 has a byte for each of the four numbers.
    selector = spreadBits(b, selector, /*distance=*/8, /*mask=*/0x00FF00FF);
    selector = spreadBits(b, selector, /*distance=*/4, /*mask=*/0x0F0F0F0F);
    return LLVM::CallIntrinsicOp::create(b, b.getI32Type(),
                                         b.getStringAttr("llvm.amdgcn.perm"),
                                         ValueRange{high, low, selector})
        .getResult(0);
  }

  bool hasScalarRegisters() const override { return true; }

  // gfx942 and gfx950 have no product of bf16 but a matrix's.
  bool hasPackedBF16Products() const override { return false; }

  Value createUniform(ImplicitLocOpBuilder &b, Value value) const override {
    return ROCDL::ReadfirstlaneOp::create(b, value.getType(), value);
  }

  Value createBallot(ImplicitLocOpBuilder &b, Value condition) const override {
    return ROCDL::BallotOp::create(b, b.getIntegerType(getSubgroupSize()),
                                   condition);
  }

  Value createAny(ImplicitLocOpBuilder &b, Value condition) const override {
    Value lanes = createBallot(b, condition);
    Value none = arith::ConstantIntOp::create(b, lanes.getType(), 0);
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, lanes, none);
  }

  void createSubgroupBarrier(ImplicitLocOpBuilder &b) const override {
    // The lanes of a wave run in lockstep, so only compilers must not reorder.
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::release, kWaveScope);
    LLVM::CallIntrinsicOp::create(
        b, b.getStringAttr("llvm.amdgcn.wave.barrier"), ValueRange{});
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acquire, kWaveScope);
  }

  /// LLVM's intrinsic takes the lanes one after the other.
  void createPause(ImplicitLocOpBuilder &b) const override {
    ROCDL::SSleepOp::create(b, b.getI32IntegerAttr(kPauseSteps));
  }

  Value createSubgroupMaxU(ImplicitLocOpBuilder &b,
                           Value value) const override {
    return Value();
  }

  /// Swapping rows between two copies leaves both values in each lane. A
  /// shuffle would also have to find out which of them is the other lane's.
  std::pair<Value, Value> createExchange(ImplicitLocOpBuilder &b, Value value,
                                         int64_t mask) const override {
    if (target.chip != kGFX950 || (mask != 16 && mask != 32))
      return {};
    Type pair = LLVM::LLVMStructType::getLiteral(
        b.getContext(), {b.getI32Type(), b.getI32Type()});
    Value swapped =
        mask == 16
            ? Value(ROCDL::Permlane16SwapOp::create(b, pair, value, value,
                                                    /*fi=*/false,
                                                    /*boundControl=*/false))
            : Value(ROCDL::Permlane32SwapOp::create(b, pair, value, value,
                                                    /*fi=*/false,
                                                    /*boundControl=*/false));
    return {LLVM::ExtractValueOp::create(b, swapped, 0),
            LLVM::ExtractValueOp::create(b, swapped, 1)};
  }

  /// A library of the vendor reads it from arguments that launches hide.
  Value createNumBlocks(ImplicitLocOpBuilder &b) const override {
    return Value();
  }

  StringRef getBlockScope() const override { return "workgroup"; }
  StringRef getDeviceScope() const override { return "agent"; }

private:
  /// The chip that can swap rows of lanes.
  static constexpr StringLiteral kGFX950 = "gfx950";
  static constexpr StringLiteral kWaveScope = "wavefront";
  static constexpr StringLiteral kWavesAttr = "rocdl.waves_per_eu";
  /// SIMDs of a compute unit; each runs the same number of waves.
  static constexpr int64_t kSIMDs = 4;
  /// Steps of 64 cycles each: a quarter of a microsecond.
  static constexpr int64_t kPauseSteps = 8;

  /// Moves the upper half of each group of bits in `mask` up by `distance`.
  static Value spreadBits(ImplicitLocOpBuilder &b, Value word, int64_t distance,
                          int64_t mask) {
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(b, b.getI32Type(), value);
    };
    Value shifted = arith::ShLIOp::create(b, word, constant(distance));
    Value both = arith::OrIOp::create(b, word, shifted);
    return arith::AndIOp::create(b, both, constant(mask));
  }

  static Value createLargest(ImplicitLocOpBuilder &b, Type fp8Type) {
    const llvm::fltSemantics &semantics =
        cast<FloatType>(fp8Type).getFloatSemantics();
    float largest = APFloat::getLargest(semantics).convertToFloat();
    return arith::ConstantOp::create(b, b.getF32FloatAttr(largest));
  }

  /// The products of neighbours at once.
  static SmallVector<Value> createProducts(ImplicitLocOpBuilder &b,
                                           ArrayRef<Value> values,
                                           ArrayRef<Value> scales) {
    auto pair = VectorType::get(2, b.getF32Type());
    SmallVector<Value> products;
    for (size_t first = 0; first < values.size(); first += 2) {
      auto getPair = [&](ArrayRef<Value> numbers) -> Value {
        return vector::FromElementsOp::create(b, pair, numbers.slice(first, 2));
      };
      Value product =
          arith::MulFOp::create(b, getPair(values), getPair(scales));
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

  /// The bytes of four numbers; each half of the word is written by itself.
  static Value convert(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                       Type fp8Type) {
    Value word = LLVM::PoisonOp::create(b, b.getI32Type());
    word = convertPair(b, values[0], values[1], word, /*upperHalf=*/false,
                       fp8Type);
    return convertPair(b, values[2], values[3], word, /*upperHalf=*/true,
                       fp8Type);
  }

  static Value convertPair(ImplicitLocOpBuilder &b, Value first, Value second,
                           Value word, bool upperHalf, Type fp8Type) {
    if (isa<Float8E4M3FNType, Float8E4M3FNUZType>(fp8Type))
      return ROCDL::CvtPkFp8F32Op::create(b, b.getI32Type(), first, second,
                                          word, upperHalf);
    return ROCDL::CvtPkBf8F32Op::create(b, b.getI32Type(), first, second, word,
                                        upperHalf);
  }
};
} // namespace

std::unique_ptr<TargetHooks>
fp8moe::createROCDLTargetHooks(const TargetInfo &target) {
  return std::make_unique<ROCDLTargetHooks>(target);
}

void fp8moe::addGPUToROCDLPasses(OpPassManager &kernels,
                                 const TargetInfo &target) {
  ConvertGpuOpsToROCDLOpsOptions options;
  options.chipset = target.chip.str();
  options.runtime = gpu::amd::Runtime::HIP;
  kernels.addPass(createConvertGpuOpsToROCDLOps(options));
}
