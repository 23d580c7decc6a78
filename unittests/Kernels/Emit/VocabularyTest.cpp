//===- VocabularyTest.cpp - What vendors make of operations ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

/// Returns a number that no pass knows, uniform over lanes or not.
Value getWord(KernelBuilder &b, int64_t index = 0) {
  return b.load(b.getI32Type(), b.offsetBytes(b.getPointer(0), 4 * index), 4);
}

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

/// Expects the parts on both AMD chips.
void expectOnAMD(function_ref<Value(KernelBuilder &)> build,
                 ArrayRef<StringRef> parts) {
  for (StringRef chip : {"gfx942", "gfx950"})
    expectLowered(chip, build, parts);
}

TEST(VocabularyTest, AtomicWords) {
  auto build = [](KernelBuilder &b) {
    b.storeRelaxed(
        b.add(b.loadRelaxed(b.getPointer(0)), b.loadAcquire(b.getPointer(0))),
        b.getPointer(0));
    b.createDeviceFence();
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

/// A scan takes five steps in a warp and six in a wavefront.
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
