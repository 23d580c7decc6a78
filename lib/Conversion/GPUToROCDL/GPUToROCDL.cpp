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
  explicit ROCDLTargetHooks(const TargetInfo &target) : target(target) {}

  int64_t getSubgroupSize() const override { return target.warpSize; }

  /// known_block_size already says all.
  void annotateKernel(gpu::GPUFuncOp kernel) const override {}

  // LLVM's own heuristic leaves enough waves.
  void requestResidentBlocks(gpu::GPUFuncOp kernel,
                             int64_t blocks) const override {}

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
    Value zero = arith::ConstantIntOp::create(b, b.getI32Type(), 0);
    Value low = convertPair(b, clamped[0], clamped[1], zero,
                            /*upperHalf=*/false, fp8Type);
    return convertPair(b, clamped[2], clamped[3], low, /*upperHalf=*/true,
                       fp8Type);
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
  Value createSubgroupMaxU(ImplicitLocOpBuilder &b,
                           Value value) const override {
    return Value();
  }

  /// A library of the vendor reads it from arguments that launches hide.
  Value createNumBlocks(ImplicitLocOpBuilder &b) const override {
    return Value();
  }

  StringRef getBlockScope() const override { return "workgroup"; }
  StringRef getDeviceScope() const override { return "agent"; }

private:
  static constexpr StringLiteral kWaveScope = "wavefront";

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

  /// The conversion turns what is too large into a NaN or an infinity. Both
  /// comparisons are false for a NaN, which therefore stays.
  Value createClamp(ImplicitLocOpBuilder &b, Value value, Type fp8Type) const {
    const llvm::fltSemantics &semantics =
        cast<FloatType>(fp8Type).getFloatSemantics();
    float largest = APFloat::getLargest(semantics).convertToFloat();
    Value high = arith::ConstantOp::create(b, b.getF32FloatAttr(largest));
    Value low = arith::ConstantOp::create(b, b.getF32FloatAttr(-largest));
    Value isHigh =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, value, high);
    value = arith::SelectOp::create(b, isHigh, high, value);
    Value isLow =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, value, low);
    return arith::SelectOp::create(b, isLow, low, value);
  }

  Value convertPair(ImplicitLocOpBuilder &b, Value first, Value second,
                    Value word, bool upperHalf, Type fp8Type) const {
    if (isa<Float8E4M3FNType, Float8E4M3FNUZType>(fp8Type))
      return ROCDL::CvtPkFp8F32Op::create(b, b.getI32Type(), first, second,
                                          word, upperHalf);
    return ROCDL::CvtPkBf8F32Op::create(b, b.getI32Type(), first, second, word,
                                        upperHalf);
  }

  const TargetInfo &target;
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
