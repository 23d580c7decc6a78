//===- FatalErrorsTest.cpp - Tests of going on after fatal errors ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LLVMErrors.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Returns the errors of `action`, run as code generation.
std::string getErrors(function_ref<LogicalResult()> action) {
  MLIRContext context;
  std::string errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors += diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(runCodeGeneration(UnknownLoc::get(&context), action)));
  return errors;
}

TEST(FatalErrors, BecomeDiagnostics) {
  for (const char *reason : {"one", "another"})
    EXPECT_EQ(
        getErrors([&]() -> LogicalResult { llvm::report_fatal_error(reason); }),
        std::string("code generation failed: ") + reason);
}

/// An inner failure ends before the outer one, and both report their errors.
TEST(FatalErrors, MayBeInsideOfEachOther) {
  EXPECT_EQ(getErrors([]() -> LogicalResult {
              EXPECT_EQ(getErrors([]() -> LogicalResult {
                          llvm::report_fatal_error("inner");
                        }),
                        "code generation failed: inner");
              llvm::report_fatal_error("outer");
            }),
            "code generation failed: outer");
}

/// Otherwise the next crash would print stale entries.
TEST(FatalErrors, LeaveNoStackTrace) {
  const void *before = llvm::SavePrettyStackState();
  getErrors([]() -> LogicalResult {
    llvm::PrettyStackTraceString frame("a frame that a jump leaves");
    llvm::report_fatal_error("inside");
  });
  EXPECT_EQ(llvm::SavePrettyStackState(), before);
}

} // namespace
