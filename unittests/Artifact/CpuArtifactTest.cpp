//===- CpuArtifactTest.cpp - Artifacts executed by the runtime ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests the path from IR to numbers through files. The runtime must accept the
// writer's manifest, and a kernel's entry must pass its parameters.
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Runtime.h"
#include "fp8moe/Artifact/ArtifactWriter.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

#include <cstring>
#include <vector>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Computes y[i] = 3 * x[i * stride] + n through a workspace.
constexpr const char *source = R"(
llvm.func @scale(%x: !llvm.ptr, %stride: i64, %t: !llvm.ptr, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c3 = llvm.mlir.constant(3.0 : f32) : f32
  llvm.br ^head(%c0 : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %j = llvm.mul %i, %stride : i64
  %px = llvm.getelementptr %x[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %pt = llvm.getelementptr %t[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %px : !llvm.ptr -> f32
  %w = llvm.fmul %v, %c3 : f32
  llvm.store %w, %pt : f32, !llvm.ptr
  %next = llvm.add %i, %c1 : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}
llvm.func @add(%t: !llvm.ptr, %y: !llvm.ptr, %n: i64) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %nf = llvm.sitofp %n : i64 to f32
  llvm.br ^head(%c0 : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %pt = llvm.getelementptr %t[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %py = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %pt : !llvm.ptr -> f32
  %w = llvm.fadd %v, %nf : f32
  llvm.store %w, %py : f32, !llvm.ptr
  %next = llvm.add %i, %c1 : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}
fp8moe_plan.program @main {
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32, strided<[?]>>
  %n = fp8moe_plan.dim %x, 0 : memref<?xf32, strided<[?]>>
  %ld = fp8moe_plan.stride %x, 0 : memref<?xf32, strided<[?]>>
  %y = fp8moe_plan.output "y" sizes(%n) align 4 : memref<?xf32>
  %t = fp8moe_plan.workspace sizes(%n) align 64 : memref<?xf32>
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %few = arith.cmpi sle, %n, %c7 : index
  fp8moe_plan.require %few, "at most seven"
  fp8moe_plan.launch @scale grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%x, %ld, %t, %n)
      : memref<?xf32, strided<[?]>>, index, memref<?xf32>, index
  fp8moe_plan.launch @add grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%t, %y, %n) : memref<?xf32>, memref<?xf32>, index
}
)";

class CpuArtifact : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("fp8moe-test", dir));
    DialectRegistry registry;
    registry
        .insert<LLVM::LLVMDialect, arith::ArithDialect, plan::PlanDialect>();
    registerArtifactTranslations(registry);
    MLIRContext mlirContext(registry);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(source, &mlirContext);
    ASSERT_TRUE(module);
    // Links twice, because the linker in this process has global state.
    for (int i = 0; i < 2; ++i)
      ASSERT_TRUE(
          succeeded(writeArtifact(*module, *lookupTarget("cpu"), dir,
                                  EmissionOptions(), /*decisions=*/{})));
    ASSERT_EQ(fp8moe_artifact_load(dir.c_str(), "cpu", &artifact), FP8MOE_OK)
        << fp8moe_last_error();
    program = fp8moe_artifact_find_program(artifact, "main");
    ASSERT_NE(program, nullptr);
  }

  void TearDown() override {
    fp8moe_artifact_unload(artifact);
    EXPECT_FALSE(llvm::sys::fs::remove_directories(dir));
  }

  SmallString<128> dir;
  fp8moe_artifact *artifact = nullptr;
  const fp8moe_program *program = nullptr;
};

TEST_F(CpuArtifact, ComputesThroughWorkspaceAndStrides) {
  const int64_t size = 5, stride = 2;
  std::vector<float> x = {1, -9, 2, -9, 3, -9, 4, -9, 5};
  fp8moe_tensor tensor = {FP8MOE_DTYPE_F32, 1, &size, &stride};
  fp8moe_call *call = nullptr;
  ASSERT_EQ(fp8moe_program_resolve(program, &tensor, 1, &call), FP8MOE_OK)
      << fp8moe_last_error();
  ASSERT_EQ(fp8moe_call_output(call, 0)->bytes, 20u);
  ASSERT_GE(fp8moe_call_workspace_bytes(call), 20u);
  alignas(64) char workspace[256];
  ASSERT_LE(fp8moe_call_workspace_bytes(call), sizeof(workspace));
  std::vector<float> y(5, -1.0f);
  const void *inputs[] = {x.data()};
  void *outputs[] = {y.data()};
  EXPECT_EQ(fp8moe_call_run(call, inputs, outputs, workspace, sizeof(workspace),
                            nullptr),
            FP8MOE_OK)
      << fp8moe_last_error();
  EXPECT_EQ(y, (std::vector<float>{8, 11, 14, 17, 20}));
  fp8moe_call_destroy(call);
}

TEST_F(CpuArtifact, ReportsUnmetRequirements) {
  const int64_t size = 8, stride = 1;
  fp8moe_tensor tensor = {FP8MOE_DTYPE_F32, 1, &size, &stride};
  fp8moe_call *call = nullptr;
  EXPECT_NE(fp8moe_program_resolve(program, &tensor, 1, &call), FP8MOE_OK);
  EXPECT_NE(std::strstr(fp8moe_last_error(), "at most seven"), nullptr)
      << fp8moe_last_error();
}

} // namespace
