//===- KernelBuilderTest.cpp - Signatures of kernels ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelFixture.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

class KernelBuilderTest : public KernelFixture {
protected:
  std::vector<std::string> typesOf(gpu::GPUFuncOp kernel) {
    std::vector<std::string> texts;
    for (Type type : kernel.getArgumentTypes()) {
      texts.emplace_back();
      llvm::raw_string_ostream(texts.back()) << type;
    }
    return texts;
  }
};

TEST_F(KernelBuilderTest, ParametersInOrder) {
  KernelSignature signature;
  signature.tensorMaps = 2;
  signature.pointers = 1;
  signature.sizes = 1;
  signature.threads = 384;
  KernelBuilder b(module->getLoc(), kernels, "k", signature, target);
  gpu::GPUFuncOp kernel = b.getKernel();
  EXPECT_EQ(typesOf(kernel),
            (std::vector<std::string>{"!llvm.ptr", "!llvm.ptr", "!llvm.ptr",
                                      "i64", "i64"}));
  auto isMap = [&](unsigned index) {
    return kernel.getArgAttr(index, plan::PlanDialect::kTensorMapAttrName) !=
           nullptr;
  };
  EXPECT_TRUE(isMap(0));
  EXPECT_TRUE(isMap(1));
  EXPECT_FALSE(isMap(2));
  EXPECT_EQ(b.getTensorMap(1), kernel.getArgument(1));
  EXPECT_EQ(b.getSize(0), kernel.getArgument(3));
  auto numBlocks = b.getNumBlocks().getDefiningOp<arith::TruncIOp>();
  ASSERT_TRUE(numBlocks);
  EXPECT_EQ(numBlocks.getIn(), kernel.getArgument(4));
  EXPECT_EQ(kernel.getKnownBlockSize()->front(), 384);
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(KernelBuilderTest, NamesOfPrintedValues) {
  KernelSignature signature;
  signature.pointers = 1;
  signature.threads = 128;
  KernelBuilder b(module->getLoc(), kernels, "k", signature, target);
  b.getPointer(0, "input");
  Value lane = b.named("lane", b.getLane());
  Value zero = b.i32(0);
  EXPECT_EQ(b.named("zero", zero), zero);
  std::string text;
  llvm::raw_string_ostream os(text);
  b.getKernel()->print(os, OpPrintingFlags().printNameLocAsPrefix());
  EXPECT_NE(text.find("@k(%input: !llvm.ptr, %blocks: i64)"), text.npos);
  EXPECT_NE(text.find("%input_0 = llvm.addrspacecast %input"), text.npos);
  EXPECT_NE(text.find("%lane = arith.remui"), text.npos);
  EXPECT_EQ(text.find("%zero"), text.npos);
  EXPECT_TRUE(lane.getDefiningOp());
}

TEST_F(KernelBuilderTest, NoBlockCount) {
  KernelSignature signature;
  signature.sizes = 2;
  signature.hasBlockCount = false;
  signature.threads = 128;
  KernelBuilder b(module->getLoc(), kernels, "k", signature, target);
  EXPECT_EQ(b.getKernel().getNumArguments(), 2u);
  EXPECT_EQ(b.getSize(1), b.getKernel().getArgument(1));
  EXPECT_FALSE(b.getKernel().getKnownClusterSize());
}

TEST_F(KernelBuilderTest, KernelsShareTheSymbolOfDynamicMemory) {
  KernelSignature signature;
  signature.threads = 128;
  for (StringRef name : {"first", "second"}) {
    KernelBuilder b(module->getLoc(), kernels, name, signature, target);
    auto address = b.getDynamicShared().getDefiningOp<LLVM::AddressOfOp>();
    ASSERT_TRUE(address);
    // A second call in the same kernel returns the same global.
    EXPECT_EQ(
        b.getDynamicShared().getDefiningOp<LLVM::AddressOfOp>().getGlobalName(),
        address.getGlobalName());
  }
  auto globals = llvm::to_vector(kernels.getOps<LLVM::GlobalOp>());
  ASSERT_EQ(globals.size(), 1u);
  EXPECT_EQ(globals.front().getAlignment(), 1024u);
  EXPECT_EQ(globals.front().getAddrSpace(), 3u);
  EXPECT_EQ(globals.front().getLinkage(), LLVM::Linkage::External);
  EXPECT_TRUE(succeeded(verify(*module)));
}

} // namespace
