//===- VocabularyTest.cpp - What vendors make of operations ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/AtomicWords.h"

#include "KernelFixture.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Builds a kernel for a chip and lowers it.
class Lowering : public BuilderFixture {
public:
  explicit Lowering(StringRef chip) : BuilderFixture(chip) {
    DialectRegistry registry;
    arith::registerConvertArithToLLVMInterface(registry);
    vector::registerConvertVectorToLLVMInterface(registry);
    context.appendDialectRegistry(registry);
  }
  void TestBody() override {}

  std::string run(function_ref<Value(KernelBuilder &)> build) {
    if (Value result = build(b))
      b.store(result, b.getPointer(0), 4);
    PassManager pm(&context);
    buildGPUToTargetPipeline(pm, target);
    EXPECT_TRUE(succeeded(pm.run(*module)));
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    return text;
  }
};

/// A number that no pass knows, alike in all lanes or not.
Value getWord(KernelBuilder &b, int64_t index = 0) {
  return b.load(b.getI32Type(), b.offsetBytes(b.getPointer(0), 4 * index), 4);
}
Value getCondition(KernelBuilder &b) { return b.less(getWord(b), 7); }

void expectLowered(StringRef chip, function_ref<Value(KernelBuilder &)> build,
                   ArrayRef<StringRef> parts) {
  std::string text = Lowering(chip).run(build);
  size_t from = 0;
  for (StringRef part : parts) {
    size_t found = text.find(part.str(), from);
    EXPECT_NE(found, std::string::npos)
        << chip.str() << ": no '" << part.str() << "' in\n"
        << text;
    if (found == std::string::npos)
      return;
    from = found + part.size();
  }
}

/// The two chips of AMD must agree.
void expectOnAMD(function_ref<Value(KernelBuilder &)> build,
                 ArrayRef<StringRef> parts) {
  for (StringRef chip : {"gfx942", "gfx950"})
    expectLowered(chip, build, parts);
}

TEST(VocabularyTest, Ballot) {
  auto build = [](KernelBuilder &b) { return b.ballot(getCondition(b)); };
  expectLowered("sm_90a", build, {"nvvm.vote.sync", "ballot", "-> i32"});
  // A bit for each of 64 lanes.
  expectOnAMD(build, {"rocdl.ballot", ": i64"});
}

TEST(VocabularyTest, Any) {
  auto build = [](KernelBuilder &b) {
    return b.zeroExtend(b.getI32Type(), b.voteAny(getCondition(b)));
  };
  expectLowered("sm_90a", build, {"nvvm.vote.sync", "any", "-> i1"});
  expectOnAMD(build, {"rocdl.ballot", ": i64", "llvm.icmp \"ne\""});
}

TEST(VocabularyTest, SubgroupBarrier) {
  auto build = [](KernelBuilder &b) {
    b.syncSubgroup();
    return Value();
  };
  expectLowered("sm_90a", build, {"nvvm.bar.warp.sync"});
  expectOnAMD(build, {"llvm.fence syncscope(\"wavefront\") release",
                      "llvm.amdgcn.wave.barrier",
                      "llvm.fence syncscope(\"wavefront\") acquire"});
}

TEST(VocabularyTest, Pause) {
  auto build = [](KernelBuilder &b) {
    b.getHooks().createPause(b);
    return Value();
  };
  expectLowered("sm_90a", build, {"nvvm.nanosleep"});
  expectOnAMD(build, {"rocdl.s.sleep"});
}

TEST(VocabularyTest, MaxOfLanes) {
  auto build = [](KernelBuilder &b) { return b.maxOfLanes(getWord(b)); };
  expectLowered("sm_90a", build, {"nvvm.redux.sync", "umax"});
  // A tree of six steps.
  SmallVector<StringRef> parts(6, "llvm.intr.umax");
  expectOnAMD(build, parts);
}

TEST(VocabularyTest, PermuteBytes) {
  auto build = [](KernelBuilder &b) {
    return b.permuteBytes(getWord(b, 1), getWord(b, 2), b.i32(0x7410));
  };
  expectLowered("sm_90a", build, {"llvm.mlir.constant(29712 :", "nvvm.prmt"});
  // A byte for each number, 0x07040100, and the upper word first.
  expectOnAMD(build, {"llvm.mlir.constant(117702912 :", "llvm.amdgcn.perm"});
  expectOnAMD(
      [](KernelBuilder &b) {
        return b.permuteBytes(getWord(b, 1), getWord(b, 2), getWord(b, 3));
      },
      {"llvm.amdgcn.perm"});
}

TEST(VocabularyTest, PackBF16) {
  auto build = [](KernelBuilder &b) {
    return b.packBF16(b.bitcast(b.getF32Type(), getWord(b, 1)),
                      b.bitcast(b.getF32Type(), getWord(b, 2)));
  };
  expectLowered("sm_90a", build,
                {"nvvm.convert.f32x2.to.bf16x2", "llvm.bitcast"});
  expectOnAMD(build, {"llvm.fptrunc", "vector<2xf32> to vector<2xbf16>",
                      "llvm.bitcast"});
}

TEST(VocabularyTest, MaxU16) {
  auto build = [](KernelBuilder &b) {
    auto getWords = [&](int64_t index) {
      return b.load(b.getWordsType(), b.offsetBytes(b.getPointer(0), index),
                    16);
    };
    Value larger = b.getHooks().createMaxU16(b, getWords(16), getWords(32));
    return b.unpackWords(larger)[3];
  };
  expectLowered("sm_90a", build, {"llvm.intr.umax", "vector<8xi16>"});
  // A word at a time.
  expectOnAMD(build, {"vector<2xi16>", "llvm.intr.umax", "vector<2xi16>"});
}

TEST(VocabularyTest, PackedBF16Products) {
  auto build = [](bool expected) {
    return [expected](KernelBuilder &b) {
      EXPECT_EQ(b.getHooks().hasPackedBF16Products(), expected);
      return getWord(b, 1);
    };
  };
  expectLowered("sm_90a", build(true), {});
  expectOnAMD(build(false), {});
}

TEST(VocabularyTest, PackScaledFP8) {
  auto build = [](FP8Products products) {
    return [products](KernelBuilder &b) {
      bool isFNUZ =
          b.getHooks().supportsFP8(Float8E4M3FNUZType::get(b.getContext()));
      Type type = isFNUZ ? Type(Float8E4M3FNUZType::get(b.getContext()))
                         : Type(Float8E4M3FNType::get(b.getContext()));
      SmallVector<Value> values, scales;
      for (int64_t i : {1, 2, 3, 4}) {
        values.push_back(b.bitcast(b.getF32Type(), getWord(b, i)));
        scales.push_back(b.bitcast(b.getF32Type(), getWord(b, 4 + i)));
      }
      return b.getHooks()
          .createPackScaledFP8(b, values, scales, type, products)
          .front();
    };
  };
  for (FP8Products products : {FP8Products::Any, FP8Products::OfOwnScale,
                               FP8Products::OfOwnPowerOfTwo})
    expectLowered("sm_90a", build(products),
                  {"llvm.fmul", "nvvm.convert.f32x2.to.f8x2", "satfinite"});
  StringRef multiply = "llvm.fmul", convert = "rocdl.cvt.pk.fp8.f32";
  // A NaN stays.
  expectOnAMD(build(FP8Products::Any),
              {multiply, "vector<2xf32>", "rocdl.fmed3", "llvm.fcmp \"uno\"",
               "llvm.select", convert});
  // One comparison for each scale.
  expectOnAMD(build(FP8Products::OfOwnScale),
              {multiply, "vector<2xf32>", "llvm.fcmp \"one\"", "llvm.select",
               "rocdl.fmed3", convert});
  auto ownPowerOfTwo = build(FP8Products::OfOwnPowerOfTwo);
  expectOnAMD(ownPowerOfTwo, {multiply, "vector<2xf32>", convert, convert});
  for (StringRef chip : {"gfx942", "gfx950"})
    EXPECT_EQ(Lowering(chip).run(ownPowerOfTwo).find("rocdl.fmed3"),
              std::string::npos);
}

TEST(VocabularyTest, Uniform) {
  auto build = [](KernelBuilder &b) { return b.uniform(getWord(b, 1)); };
  expectLowered("sm_90a", build, {"llvm.load", "llvm.store"});
  expectOnAMD(build, {"rocdl.readfirstlane"});
}

TEST(VocabularyTest, Exchange) {
  auto build = [](int64_t mask) {
    return [mask](KernelBuilder &b) {
      auto [one, other] = b.exchange(getWord(b, 1), mask);
      return b.maxU(one, other);
    };
  };
  for (int64_t mask : {8, 16, 32}) {
    if (mask < 32)
      expectLowered("sm_90a", build(mask), {"nvvm.shfl", "bfly"});
    expectLowered("gfx942", build(mask),
                  {mask < 32 ? "rocdl.ds_swizzle" : "rocdl.ds_bpermute"});
  }
  // Rows of 16 lanes can be swapped.
  expectLowered("gfx950", build(8), {"rocdl.ds_swizzle"});
  expectLowered("gfx950", build(16), {"rocdl.permlane16.swap"});
  expectLowered("gfx950", build(32), {"rocdl.permlane32.swap"});
}

TEST(VocabularyTest, UnpackFP8) {
  auto build = [](auto getType) {
    return [getType](KernelBuilder &b) {
      SmallVector<Value> values = b.getHooks().createUnpackFP8(
          b, getWord(b, 1), getType(b.getContext()));
      EXPECT_EQ(values.size(), 4u);
      Value sum = values[0];
      for (Value value : ArrayRef(values).drop_front())
        sum = arith::AddFOp::create(b, sum, value);
      return b.bitcast(b.getI32Type(), sum);
    };
  };
  auto e4m3 = build([](MLIRContext *c) { return Float8E4M3FNType::get(c); });
  auto e5m2 = build([](MLIRContext *c) { return Float8E5M2Type::get(c); });
  auto fnuz = build([](MLIRContext *c) { return Float8E4M3FNUZType::get(c); });
  // By way of f16, a pair at a time.
  expectLowered("sm_90a", e4m3,
                {"nvvm.convert.f8x2.to.f16x2", "f8E4M3FN", "llvm.fpext",
                 "nvvm.convert.f8x2.to.f16x2"});
  expectLowered("sm_90a", e5m2, {"nvvm.convert.f8x2.to.f16x2", "f8E5M2"});
  expectLowered(
      "gfx950", e4m3,
      {"rocdl.cvt.pk.f32.fp8", "[false]", "rocdl.cvt.pk.f32.fp8", "[true]"});
  expectLowered("gfx950", e5m2, {"rocdl.cvt.pk.f32.bf8"});
  expectLowered("gfx942", fnuz, {"rocdl.cvt.pk.f32.fp8"});
}

TEST(VocabularyTest, NumBlocks) {
  expectLowered("sm_90a", [](KernelBuilder &b) { return b.getNumBlocks(); },
                {"nvvm.read.ptx.sreg.nctaid.x"});
  // Kernels of AMD need the parameter.
  expectOnAMD(
      [](KernelBuilder &b) {
        EXPECT_FALSE(b.getHooks().createNumBlocks(b));
        return Value();
      },
      {});
}

TEST(VocabularyTest, AtomicWords) {
  auto build = [](KernelBuilder &b) {
    storeRelaxed(
        b,
        b.add(loadRelaxed(b, b.getPointer(0)), loadAcquire(b, b.getPointer(0))),
        b.getPointer(0));
    createDeviceFence(b);
    return Value();
  };
  expectLowered("sm_90a", build,
                {"atomic syncscope(\"device\") monotonic",
                 "atomic syncscope(\"device\") acquire",
                 "atomic syncscope(\"device\") monotonic",
                 "llvm.fence syncscope(\"device\") acq_rel"});
  expectOnAMD(build, {"atomic syncscope(\"agent\") monotonic",
                      "atomic syncscope(\"agent\") acquire",
                      "atomic syncscope(\"agent\") monotonic",
                      "llvm.fence syncscope(\"agent\") acq_rel"});
}

/// Five steps in a warp, six in a wavefront.
TEST(VocabularyTest, Scans) {
  for (auto [chip, steps] : {std::pair("sm_90a", 5), std::pair("gfx942", 6)}) {
    Lowering lowering(chip);
    int64_t combined = 0;
    lowering.run([&, steps = steps](KernelBuilder &b) {
      Value lane = b.truncate(b.getI32Type(), b.getLane());
      auto add = [&](Value lhs, Value rhs) {
        ++combined;
        return b.add(lhs, rhs);
      };
      Value sum = b.scanLanes(getWord(b), lane, add);
      EXPECT_EQ(combined, steps);
      Value largest = b.scanLanesIdempotent(
          sum, lane, [&](Value lhs, Value rhs) { return b.maxS(lhs, rhs); });
      return b.shiftLanes(largest, lane);
    });
  }
}

} // namespace
