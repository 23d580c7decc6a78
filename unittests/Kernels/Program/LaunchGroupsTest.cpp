//===- LaunchGroupsTest.cpp - Tests of merged launches --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/LaunchGroups.h"

#include "ProgramFixture.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Kernels that only have shared memory: as many bytes as columns.
class FakeQuantizeLowering : public OpLowering {
public:
  StringRef getName() const override { return "fakes"; }
  bool matches(Operation *op) const override {
    return isa<JaggedDynamicQuantizeOp>(op);
  }
  bool writesResults() const override { return true; }
  LogicalResult lower(Operation *op, ProgramLowering &lowering) const override {
    OpBuilder builder = lowering.getBuilder();
    for (OpResult result : op->getResults())
      if (failed(lowering.createResult(result)))
        return failure();
    Value output = lowering.getView(op->getResult(0)).buffer;
    int64_t bytes = cast<MemRefType>(output.getType()).getDimSize(1);
    SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
        "fake", builder.getI64IntegerAttr(bytes),
        [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
          KernelSignature signature;
          signature.pointers = 1;
          signature.threads = 128;
          KernelBuilder(op->getLoc(), module, name, signature, target)
              .allocateShared(bytes, "memory");
        });
    lowering.createLaunch(op->getLoc(), kernel, builder.getIndexAttr(4),
                          /*threads=*/128, output, /*sizes=*/{});
    return success();
  }
};

class LaunchGroupsTest : public ProgramFixture {
protected:
  LaunchGroupsTest() { table.ops.push_back(&fake); }

  FakeQuantizeLowering fake;
};

TEST_F(LaunchGroupsTest, MergedKernelsThatAreKnownMustFitToo) {
  std::string function = R"(
    func.func @NAME(%x: tensor<64x131072xbf16>, %y: tensor<64x196608xbf16>,
                    %ends: tensor<4xi32>) -> (tensor<64x131072xf8E4M3FN>, tensor<64x196608xf8E4M3FN>) {
      %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<4xi32>) along [0]
          rounding pow2 {fp8moe.launch_group = 0 : i64}
          : tensor<64x131072xbf16> -> tensor<64x131072xf8E4M3FN>, tensor<4x131072xf32>
      %p, %t = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<4xi32>) along [0]
          rounding pow2 {fp8moe.launch_group = 0 : i64}
          : tensor<64x196608xbf16> -> tensor<64x196608xf8E4M3FN>, tensor<4x196608xf32>
      return %q, %p : tensor<64x131072xf8E4M3FN>, tensor<64x196608xf8E4M3FN>
    })";
  std::string source;
  for (StringRef name : {"first", "second"}) {
    source += function;
    source.replace(source.find("NAME"), 4, name);
  }
  parse(source);
  SmallVector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors.push_back(diagnostic.str());
  });
  EXPECT_FALSE(lower("first"));
  EXPECT_FALSE(lower("second"));
  ASSERT_EQ(errors.size(), 2u);
  for (StringRef error : errors)
    EXPECT_TRUE(error.contains("its kernels need 327680 bytes of shared "
                               "memory, but a block of sm_90a has"))
        << error.str();
}

} // namespace
