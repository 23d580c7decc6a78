//===- KernelPartsTest.cpp - Tests of taking kernels apart ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelParts.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/SourceMgr.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Two kernels with a variable each, and a shared declaration.
constexpr const char *separable = R"(
  target triple = "nvptx64-nvidia-cuda"
  @dynamic = external addrspace(3) global [0 x i8]
  @of_first = internal addrspace(1) global i32 0
  @of_second = internal addrspace(1) global i32 7

  define ptx_kernel void @first() {
    store i32 1, ptr addrspace(1) @of_first
    store i8 1, ptr addrspace(3) @dynamic
    ret void
  }
  define ptx_kernel void @second() {
    store i32 1, ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @of_second, i64 0)
    store i8 2, ptr addrspace(3) @dynamic
    ret void
  }
)";

class KernelPartsTest : public testing::Test {
protected:
  std::unique_ptr<llvm::Module> parse(const std::string &text) {
    llvm::SMDiagnostic error;
    std::unique_ptr<llvm::Module> llvmModule =
        llvm::parseAssemblyString(text, error, llvmContext);
    EXPECT_TRUE(llvmModule) << error.getMessage().str();
    return llvmModule;
  }
  size_t countParts(const std::string &text) {
    return KernelParts(*parse(text)).size();
  }
  Location getLoc() { return UnknownLoc::get(&context); }

  MLIRContext context;
  llvm::LLVMContext llvmContext;
};

TEST_F(KernelPartsTest, AreTheKernelsInTheirOrder) {
  KernelParts parts(*parse(separable));
  ASSERT_EQ(parts.size(), 2u);
  FailureOr<SmallVector<std::string>> defined =
      parts.map(getLoc(), [](llvm::Module &part) -> FailureOr<std::string> {
        EXPECT_EQ(part.getTargetTriple().str(), "nvptx64-nvidia-cuda");
        EXPECT_TRUE(part.getNamedGlobal("dynamic")->isDeclaration());
        std::string names;
        for (const llvm::Function &function : part)
          names += function.getName().str() + " ";
        for (const llvm::GlobalVariable &variable : part.globals())
          if (!variable.isDeclaration())
            names += variable.getName().str();
        return names;
      });
  ASSERT_TRUE(succeeded(defined));
  EXPECT_EQ((*defined)[0], "first of_first");
  EXPECT_EQ((*defined)[1], "second of_second");
}

TEST_F(KernelPartsTest, AreLinkedAgain) {
  KernelParts parts(*parse(separable));
  FailureOr<SmallVector<std::string>> bitcode =
      parts.map(getLoc(), [](llvm::Module &part) -> FailureOr<std::string> {
        return writeBitcode(part);
      });
  ASSERT_TRUE(succeeded(bitcode));
  llvm::LLVMContext other;
  std::unique_ptr<llvm::Module> whole = linkBitcode(*bitcode, other);
  ASSERT_TRUE(whole);
  SmallVector<StringRef> names;
  for (const llvm::Function &function : *whole)
    names.push_back(function.getName());
  EXPECT_EQ(names, (SmallVector<StringRef>{"first", "second"}));
  for (const char *variable : {"dynamic", "of_first", "of_second"})
    EXPECT_TRUE(whole->getNamedGlobal(variable)) << variable;
  EXPECT_EQ(whole->global_size(), 3u);
}

TEST_F(KernelPartsTest, OneKernelIsNotTakenApart) {
  EXPECT_EQ(countParts("define ptx_kernel void @only() { ret void }"), 0u);
}

/// In separate parts, each kernel would get its own copy of the variable.
TEST_F(KernelPartsTest, KernelsThatShareAVariableStayTogether) {
  const std::string third = R"(
    define ptx_kernel void @third() {
      store i32 1, ptr addrspace(1) @of_first
      ret void
    }
  )";
  EXPECT_EQ(countParts(separable + third), 0u);
}

TEST_F(KernelPartsTest, VariablesOfVariablesStayTogether) {
  EXPECT_EQ(countParts(std::string(separable) +
                       "@pointer = addrspace(1) global ptr addrspace(1) "
                       "@of_first"),
            0u);
}

TEST_F(KernelPartsTest, KernelsWithHelpersStayTogether) {
  EXPECT_EQ(countParts(std::string(separable) +
                       "define internal void @helper() { ret void }"),
            0u);
}

TEST_F(KernelPartsTest, FatalErrorsAreReported) {
#if LLVM_ADDRESS_SANITIZER_BUILD
  GTEST_SKIP() << "what a fatal error leaves is never destroyed";
#endif
  SmallVector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors.push_back(diagnostic.str());
    return success();
  });
  KernelParts parts(*parse(separable));
  EXPECT_TRUE(
      failed(parts.map(getLoc(), [](llvm::Module &) -> FailureOr<std::string> {
        llvm::report_fatal_error("no such instruction");
      })));
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors.front(), "code generation failed: no such instruction");
}

} // namespace
