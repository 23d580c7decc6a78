//===- GPUToNVVM.cpp - NVIDIA hooks and lowering --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/GPUToNVVM/GPUToNVVM.h"
#include "fp8moe/Conversion/Passes.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Blocks that should be resident on a multiprocessor, at least.
static constexpr int64_t kBlocksPerMultiprocessor = 1;

static constexpr int64_t kPauseNanoseconds = 250;

namespace {
class NVVMTargetHooks final : public TargetHooks {
public:
  using TargetHooks::TargetHooks;

  void annotateKernel(gpu::GPUFuncOp kernel) const override {
    // Without a number of blocks, ptxas saves registers for more of them, even
    // at the price of spills.
    requestResidentBlocks(kernel, kBlocksPerMultiprocessor);
  }

  void requestResidentBlocks(gpu::GPUFuncOp kernel, int64_t blocks,
                             int64_t sharedBytes = 0) const override {
    blocks = std::min(blocks, target.countBlocksByShared(sharedBytes));
    kernel->setAttr(
        NVVM::NVVMDialect::getMinctasmAttrName(),
        IntegerAttr::get(IntegerType::get(kernel.getContext(), 32), blocks));
  }

  // When PTX is assembled.
  bool takesBackRequests() const override { return true; }

  bool supportsFP8(Type type) const override {
    return isa<Float8E4M3FNType, Float8E5M2Type>(type);
  }

  Value createPackFP8(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                      Type fp8Type) const override {
    // The conversion itself saturates and turns every NaN into 0x7F; its first
    // operand becomes the upper byte.
    auto convertPair = [&](Value low, Value high) -> Value {
      Value pair = NVVM::ConvertF32x2ToF8x2Op::create(
          b, b.getI16Type(), high, low, NVVM::FPRoundingMode::RN,
          NVVM::SaturationMode::SATFINITE, /*relu=*/false, fp8Type);
      return arith::ExtUIOp::create(b, b.getI32Type(), pair);
    };
    Value low = convertPair(values[0], values[1]);
    Value high = convertPair(values[2], values[3]);
    Value sixteen = arith::ConstantIntOp::create(b, b.getI32Type(), 16);
    return arith::OrIOp::create(b, low,
                                arith::ShLIOp::create(b, high, sixteen));
  }

  SmallVector<Value> createPackScaledFP8(ImplicitLocOpBuilder &b,
                                         ArrayRef<Value> values,
                                         ArrayRef<Value> scales, Type fp8Type,
                                         FP8Products products) const override {
    SmallVector<Value> scaled, words;
    for (auto [value, scale] : llvm::zip_equal(values, scales))
      scaled.push_back(arith::MulFOp::create(b, value, scale));
    for (size_t first = 0; first < scaled.size(); first += 4)
      words.push_back(
          createPackFP8(b, ArrayRef(scaled).slice(first, 4), fp8Type));
    return words;
  }

  SmallVector<Value> createUnpackFP8(ImplicitLocOpBuilder &b, Value word,
                                     Type fp8Type) const override {
    // There is no conversion to f32; f16 has all values of both types.
    auto bytes = VectorType::get(2, b.getI8Type());
    auto halves = VectorType::get(2, b.getF16Type());
    SmallVector<Value> values;
    for (int64_t bit : {0, 16}) {
      Value shifted = arith::ShRUIOp::create(
          b, word, arith::ConstantIntOp::create(b, b.getI32Type(), bit));
      Value pair = LLVM::BitcastOp::create(
          b, bytes, arith::TruncIOp::create(b, b.getI16Type(), shifted));
      Value converted = NVVM::ConvertF8x2ToF16x2Op::create(
          b, halves, pair, /*relu=*/false, fp8Type);
      for (int64_t i : {0, 1}) {
        Value half = vector::ExtractOp::create(b, converted, i);
        values.push_back(arith::ExtFOp::create(b, b.getF32Type(), half));
      }
    }
    return values;
  }

  Value createPackBF16(ImplicitLocOpBuilder &b, Value low,
                       Value high) const override {
    Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(
        b, VectorType::get(2, b.getBF16Type()), high, low,
        /*random_bits=*/Value(), NVVM::FPRoundingMode::RN);
    return LLVM::BitcastOp::create(b, b.getI32Type(), pair);
  }

  Value createMaxU16(ImplicitLocOpBuilder &b, Value lhs,
                     Value rhs) const override {
    auto halves = VectorType::get(8, b.getI16Type());
    Value maximum =
        arith::MaxUIOp::create(b, vector::BitCastOp::create(b, halves, lhs),
                               vector::BitCastOp::create(b, halves, rhs));
    return vector::BitCastOp::create(b, lhs.getType(), maximum);
  }

  Value createPermuteBytes(ImplicitLocOpBuilder &b, Value low, Value high,
                           Value selector) const override {
    return NVVM::PermuteOp::create(b, b.getI32Type(), low, high, selector,
                                   NVVM::PermuteMode::DEFAULT);
  }

  // ptxas finds out by itself what is uniform.
  bool hasScalarRegisters() const override { return false; }
  bool hasPackedBF16Products() const override { return true; }

  Value createUniform(ImplicitLocOpBuilder &b, Value value) const override {
    return value;
  }

  Value createBallot(ImplicitLocOpBuilder &b, Value condition) const override {
    return NVVM::VoteSyncOp::create(b, b.getI32Type(), createAllLanes(b),
                                    condition, NVVM::VoteSyncKind::ballot);
  }

  Value createAny(ImplicitLocOpBuilder &b, Value condition) const override {
    return NVVM::VoteSyncOp::create(b, b.getI1Type(), createAllLanes(b),
                                    condition, NVVM::VoteSyncKind::any);
  }

  void createSubgroupBarrier(ImplicitLocOpBuilder &b) const override {
    NVVM::SyncWarpOp::create(b, createAllLanes(b));
  }

  void createPause(ImplicitLocOpBuilder &b) const override {
    NVVM::NanosleepOp::create(
        b, arith::ConstantIntOp::create(b, b.getI32Type(), kPauseNanoseconds));
  }

  Value createSubgroupMaxU(ImplicitLocOpBuilder &b,
                           Value value) const override {
    return NVVM::ReduxOp::create(b, b.getI32Type(), value,
                                 NVVM::ReduxKind::UMAX, createAllLanes(b));
  }

  std::pair<Value, Value> createExchange(ImplicitLocOpBuilder &b, Value value,
                                         int64_t mask) const override {
    return {};
  }

  Value createNumBlocks(ImplicitLocOpBuilder &b) const override {
    return NVVM::GridDimXOp::create(b, b.getI32Type());
  }

  StringRef getBlockScope() const override { return "block"; }
  StringRef getDeviceScope() const override { return "device"; }

private:
  /// The mask of all lanes of a warp.
  static Value createAllLanes(ImplicitLocOpBuilder &b) {
    return arith::ConstantIntOp::create(b, b.getI32Type(), -1);
  }
};
} // namespace

std::unique_ptr<TargetHooks>
fp8moe::createNVVMTargetHooks(const TargetInfo &target) {
  return std::make_unique<NVVMTargetHooks>(target);
}

void fp8moe::addGPUToNVVMPasses(OpPassManager &kernels) {
  kernels.addPass(createPassTensorMaps());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createPassTensorMaps());
  // Operations that are inline assembly.
  kernels.addNestedPass<LLVM::LLVMFuncOp>(createConvertNVVMToLLVMPass());
}
