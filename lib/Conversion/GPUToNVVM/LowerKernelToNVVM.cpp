//===- LowerKernelToNVVM.cpp - Kernel operations to NVVM ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPatterns.h"
#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Target/NVIDIA.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_LOWERKERNELTONVVM
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr kernel::Vendor kVendor = {"NVIDIA", nvidia::kWarpThreads,
                                           Fp8Flavour::FN,
                                           /*laneRegister=*/"=r,0",
                                           /*subgroupRegister=*/"=r,0"};
/// Without a number of blocks, ptxas saves registers for more of them, even at
/// the price of spills.
static constexpr int32_t kResidentBlocks = 1;

/// The mask of all lanes of a warp.
static Value createAllLanes(ImplicitLocOpBuilder &b) {
  return createI32(b, -1);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// The conversion itself saturates and turns every NaN into 0x7F; its first
/// operand becomes the upper byte.
static Value createPair(ImplicitLocOpBuilder &b, Value low, Value high,
                        Type fp8Type) {
  return NVVM::ConvertF32x2ToF8x2Op::create(
      b, b.getI16Type(), high, low, NVVM::FPRoundingMode::RN,
      NVVM::SaturationMode::SATFINITE, /*relu=*/false, fp8Type);
}

static Value createPackFP8(ImplicitLocOpBuilder &b, ArrayRef<Value> values,
                           Type fp8Type) {
  auto convertPair = [&](Value low, Value high) -> Value {
    return arith::ExtUIOp::create(b, b.getI32Type(),
                                  createPair(b, low, high, fp8Type));
  };
  Value low = convertPair(values[0], values[1]);
  Value high = convertPair(values[2], values[3]);
  Value sixteen = createI32(b, 16);
  return arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, sixteen));
}

// %w = fp8moe_kernel.pack_fp8 %a, %b, %c, %d : f8E4M3FN
//   -->
// %low = nvvm.convert.f32x2.to.f8x2 %b, %a
// %high = nvvm.convert.f32x2.to.f8x2 %d, %c
// %w = %low | %high << 16
static SmallVector<Value> lowerPackFP8(kernel::PackFP8Op op,
                                       ImplicitLocOpBuilder &b) {
  SmallVector<Value> values(op.getValues()), words;
  for (auto [value, scale] : llvm::zip(values, op.getScales()))
    value = arith::MulFOp::create(b, value, scale);
  for (ArrayRef<Value> rest = values; !rest.empty(); rest = rest.drop_front(4))
    words.push_back(createPackFP8(b, rest.take_front(4), op.getFp8Type()));
  return words;
}

// fp8moe_kernel.pack_fp8_pair %a, %b --> nvvm.convert.f32x2.to.f8x2 %b, %a
static Value lowerPackFP8Pair(kernel::PackFP8PairOp op,
                              ImplicitLocOpBuilder &b) {
  return createPair(b, op.getLow(), op.getHigh(), op.getFp8Type());
}

// %v:4 = fp8moe_kernel.unpack_fp8 %w : f8E4M3FN
//   -->
// %pair = nvvm.convert.f8x2.to.f16x2 %low    (f16 has all values of both types)
// %v#0 = arith.extf %pair[0]                 (and three more)
static SmallVector<Value> lowerUnpackFP8(kernel::UnpackFP8Op op,
                                         ImplicitLocOpBuilder &b) {
  auto bytes = VectorType::get(2, b.getI8Type());
  auto halves = VectorType::get(2, b.getF16Type());
  SmallVector<Value> values;
  for (int64_t bit : {0, 16}) {
    Value shifted = arith::ShRUIOp::create(b, op.getWord(), createI32(b, bit));
    Value pair = LLVM::BitcastOp::create(
        b, bytes, arith::TruncIOp::create(b, b.getI16Type(), shifted));
    Value converted = NVVM::ConvertF8x2ToF16x2Op::create(
        b, halves, pair, /*relu=*/false, op.getFp8Type());
    for (int64_t i : {0, 1}) {
      Value half = vector::ExtractOp::create(b, converted, i);
      values.push_back(arith::ExtFOp::create(b, b.getF32Type(), half));
    }
  }
  return values;
}

/// Two numbers that are not in a vector yet.
static vector::FromElementsOp getPackedNumbers(arith::TruncFOp op) {
  Builder b(op.getContext());
  if (op.getType() != VectorType::get(2, b.getBF16Type()) ||
      op.getIn().getType() != VectorType::get(2, b.getF32Type()))
    return {};
  return op.getIn().getDefiningOp<vector::FromElementsOp>();
}

// %pair = vector.from_elements %low, %high : vector<2xf32>
// arith.truncf %pair : vector<2xf32> to vector<2xbf16>
//   -->
// nvvm.convert.f32x2.to.bf16x2 %high, %low
static LogicalResult lowerPackBF16(arith::TruncFOp op,
                                   PatternRewriter &rewriter) {
  vector::FromElementsOp pair = getPackedNumbers(op);
  if (!pair)
    return failure();
  rewriter.replaceOpWithNewOp<NVVM::ConvertF32x2ToBF16x2Op>(
      op, op.getType(), pair.getElements()[1], pair.getElements()[0],
      /*random_bits=*/Value(), NVVM::FPRoundingMode::RN);
  return success();
}

// fp8moe_kernel.permute_bytes --> nvvm.prmt
static Value lowerPermuteBytes(kernel::PermuteBytesOp op,
                               ImplicitLocOpBuilder &b) {
  return NVVM::PermuteOp::create(b, op.getType(), op.getLow(), op.getHigh(),
                                 op.getSelector(), NVVM::PermuteMode::DEFAULT);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

// fp8moe_kernel.uniform %x --> %x    (ptxas finds out what is uniform)
static Value lowerUniform(kernel::UniformOp op, ImplicitLocOpBuilder &b) {
  return op.getValue();
}

// fp8moe_kernel.ballot --> nvvm.vote.sync ballot
// fp8moe_kernel.vote_any --> nvvm.vote.sync any
template <typename OpTy, NVVM::VoteSyncKind kind>
static Value lowerVote(OpTy op, ImplicitLocOpBuilder &b) {
  return NVVM::VoteSyncOp::create(b, op.getType(), createAllLanes(b),
                                  op.getCondition(), kind);
}

// fp8moe_kernel.exchange %x, 16 --> %x, gpu.shuffle xor %x, 16, 32
static SmallVector<Value> lowerExchange(kernel::ExchangeOp op,
                                        ImplicitLocOpBuilder &b) {
  auto shuffle = gpu::ShuffleOp::create(
      b, op.getValue(), createI32(b, op.getMask()),
      createI32(b, nvidia::kWarpThreads), gpu::ShuffleMode::XOR);
  return {op.getValue(), shuffle.getShuffleResult()};
}

// fp8moe_kernel.read_lane %x, %lane --> gpu.shuffle idx %x, %lane, 32
static Value lowerReadLane(kernel::ReadLaneOp op, ImplicitLocOpBuilder &b) {
  auto shuffle = gpu::ShuffleOp::create(b, op.getValue(), op.getLane(),
                                        createI32(b, nvidia::kWarpThreads),
                                        gpu::ShuffleMode::IDX);
  return shuffle.getShuffleResult();
}

// gpu.subgroup_reduce maxui %x uniform : (i32) -> i32 --> nvvm.redux.sync umax
static Value lowerSubgroupMax(gpu::SubgroupReduceOp op,
                              ImplicitLocOpBuilder &b) {
  return NVVM::ReduxOp::create(b, op.getType(), op.getValue(),
                               NVVM::ReduxKind::UMAX, createAllLanes(b));
}

// fp8moe_kernel.subgroup_barrier --> nvvm.bar.warp.sync
static void lowerSubgroupBarrier(kernel::SubgroupBarrierOp op,
                                 ImplicitLocOpBuilder &b) {
  NVVM::SyncWarpOp::create(b, createAllLanes(b));
}

/// fp8moe_kernel.resident_blocks becomes nvvm.minctasm.
static void lowerResidentBlocks(gpu::GPUFuncOp function) {
  auto blocks =
      function->removeAttr(kernel::KernelDialect::kResidentBlocksAttrName);
  if (!blocks)
    blocks = Builder(function).getI32IntegerAttr(kResidentBlocks);
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), blocks);
}

namespace {
struct LowerKernelToNVVM
    : fp8moe::impl::LowerKernelToNVVMBase<LowerKernelToNVVM> {
  void runOnOperation() override {
    if (getOperation().isKernel())
      lowerResidentBlocks(getOperation());
    ConversionTarget target(getContext());
    target.addDynamicallyLegalOp<arith::TruncFOp>(
        [](arith::TruncFOp op) { return !getPackedNumbers(op); });
    RewritePatternSet patterns(&getContext());
    patterns.add(lowerPackBF16);
    kernel::addLowerings(
        patterns, lowerPackFP8, lowerPackFP8Pair, lowerUnpackFP8,
        lowerPermuteBytes, lowerUniform,
        lowerVote<kernel::BallotOp, NVVM::VoteSyncKind::ballot>,
        lowerVote<kernel::VoteAnyOp, NVVM::VoteSyncKind::any>, lowerExchange,
        lowerReadLane, lowerSubgroupMax, lowerSubgroupBarrier);
    populateSyncPatterns(patterns);
    populateCopyPatterns(patterns);
    populateMatrixPatterns(patterns);
    if (failed(kernel::lowerKernel(getOperation(), kVendor, target,
                                   std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
