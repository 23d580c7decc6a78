//===- ResourcesTest.cpp - Tests of reading kernel resources --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/KernelResources.h"
#include "fp8moe/Artifact/Ptxas.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Output of CUDA 13's ptxas for two kernels. The first one calls a function
/// that was not inlined.
constexpr const char *ptxasLog = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    32 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 32 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 8.208 ms
ptxas info    : Function properties for helper
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
)";

TEST(PtxasLog, ResourcesOfEveryKernel) {
  SmallVector<KernelResources> resources = parsePtxasResources(ptxasLog);
  ASSERT_EQ(resources.size(), 2u);
  EXPECT_EQ(resources[0].kernel, "first");
  EXPECT_EQ(resources[0].registers, 255);
  EXPECT_EQ(resources[0].staticSharedBytes, 1024);
  EXPECT_EQ(resources[0].stackBytes, 40);
  EXPECT_EQ(resources[0].spills, 64);
  EXPECT_EQ(resources[1].kernel, "second");
  EXPECT_EQ(resources[1].registers, 12);
  EXPECT_EQ(resources[1].staticSharedBytes, 0);
  EXPECT_EQ(resources[1].spills, 0);
}

TEST(PtxasLog, ComplaintsAreWarningsAndSerializedMatrixInstructions) {
  EXPECT_TRUE(findPtxasComplaints(ptxasLog).empty());
  SmallVector<StringRef> complaints = findPtxasComplaints(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
      "instructions are serialized\n"
      "ptxas warning : Unresolved extern variable\n"
      "ptxas info    : (C1234) something else\n");
  ASSERT_EQ(complaints.size(), 2u);
  EXPECT_TRUE(complaints[0].contains("C7510"));
  EXPECT_TRUE(complaints[1].contains("Unresolved extern"));
}

TEST(HsacoResources, RefusesWhatIsNoCodeObject) {
  MLIRContext context;
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  Location loc = UnknownLoc::get(&context);
  EXPECT_TRUE(failed(readHsacoResources("", loc)));
  EXPECT_NE(message.find("is no ELF file"), std::string::npos) << message;
  EXPECT_TRUE(failed(readHsacoResources(std::string(64, '\x7f'), loc)));
  // The header declares sections beyond the end of the file.
  std::string truncated = "\x7f"
                          "ELF\2\1\1";
  truncated.resize(64);
  truncated[0x28] = 127; // e_shoff
  truncated[0x3a] = 64;  // e_shentsize
  truncated[0x3c] = 4;   // e_shnum
  message.clear();
  EXPECT_TRUE(failed(readHsacoResources(truncated, loc)));
  EXPECT_FALSE(message.empty());
}

TEST(PtxasTest, SpillingKernelsKeepFewerBlocks) {
  std::string ptx =
      ".visible .entry a(\n)\n.maxntid 128\n.minnctapersm 3\n{}\n"
      ".visible .entry ab(\n)\n.maxntid 128\n.minnctapersm 2\n{}\n";
  KernelResources a, ab;
  a.kernel = "a";
  ab.kernel = "ab";
  EXPECT_FALSE(leaveMoreRegisters(ptx, {a, ab}));
  a.spills = 16;
  EXPECT_TRUE(leaveMoreRegisters(ptx, {a, ab}));
  EXPECT_TRUE(leaveMoreRegisters(ptx, {a, ab}));
  // One resident block is the least.
  EXPECT_FALSE(leaveMoreRegisters(ptx, {a, ab}));
  EXPECT_EQ(ptx, ".visible .entry a(\n)\n.maxntid 128\n.minnctapersm 1\n{}\n"
                 ".visible .entry ab(\n)\n.maxntid 128\n.minnctapersm 2\n{}\n");
}

} // namespace
