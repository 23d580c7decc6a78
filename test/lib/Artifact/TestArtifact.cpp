//===- TestArtifact.cpp - Passes that emit code and write artifacts -------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The artifact library is used by fp8moe-compile, whose input is at the tensor
// level. These passes let tests give it kernels of the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Driver/Driver.h"

#include "mlir/Pass/Pass.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// The common part of both passes: the target and the options of emission.
template <typename Derived>
struct ArtifactPass : PassWrapper<Derived, OperationPass<ModuleOp>> {
  ArtifactPass() = default;
  ArtifactPass(const ArtifactPass &other)
      : PassWrapper<Derived, OperationPass<ModuleOp>>(other) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registerArtifactTranslations(registry);
  }

  EmissionOptions getEmissionOptions() const { return {rocmPath, ptxas}; }

  /// The target that was asked for, or null after reporting that it is unknown.
  const TargetInfo *findTarget() {
    const TargetInfo *target = lookupTarget(chip);
    if (!target)
      this->getOperation().emitError("unknown target '")
          << chip << "'; known ones are " << listKnownTargets();
    return target;
  }

  Pass::Option<std::string> chip{*this, "chip", llvm::cl::desc("Target")};
  Pass::Option<std::string> rocmPath{*this, "rocm-path",
                                     llvm::cl::desc("ROCm folder")};
  Pass::Option<std::string> ptxas{*this, "ptxas", llvm::cl::desc("ptxas")};
};

struct TestWriteArtifact : ArtifactPass<TestWriteArtifact> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestWriteArtifact)

  TestWriteArtifact() = default;
  TestWriteArtifact(const TestWriteArtifact &other) : ArtifactPass(other) {}

  StringRef getArgument() const final { return "test-fp8moe-write-artifact"; }
  StringRef getDescription() const final {
    return "Write the module as an artifact and report on standard error";
  }

  void runOnOperation() override {
    const TargetInfo *target = findTarget();
    if (!target)
      return signalPassFailure();
    FailureOr<ArtifactReport> report = writeArtifact(
        getOperation(), *target, dir, getEmissionOptions(), /*decisions=*/{});
    if (failed(report))
      return signalPassFailure();
    for (const auto &[path, bytes] : report->files)
      llvm::errs() << "file " << path << "\n";
    for (const KernelResources &kernel : report->resources)
      llvm::errs() << "kernel " << kernel.kernel << ": registers "
                   << kernel.registers << ", static shared "
                   << kernel.staticSharedBytes << ", max threads "
                   << kernel.maxThreadsPerBlock << "\n";
  }

  Option<std::string> dir{*this, "dir", llvm::cl::desc("Output folder")};
};

struct TestEmit : ArtifactPass<TestEmit> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestEmit)

  TestEmit() = default;
  TestEmit(const TestEmit &other) : ArtifactPass(other) {}

  StringRef getArgument() const final { return "test-fp8moe-emit"; }
  StringRef getDescription() const final {
    return "Emit one product of the module into a file or standard output";
  }

  void runOnOperation() override {
    const TargetInfo *target = findTarget();
    const Stage *stage = lookupStage(kind);
    bool isKnown = stage && stage->kind == StageKind::Product;
    if (!isKnown)
      getOperation().emitError("unknown kind '") << kind << "'";
    if (!target || !isKnown)
      return signalPassFailure();
    std::error_code error;
    llvm::raw_fd_ostream os(output, error, llvm::sys::fs::OF_None);
    if (error) {
      getOperation().emitError("cannot open ") << output;
      return signalPassFailure();
    }
    if (failed(emitTo(getOperation(), *target, stage->product,
                      getEmissionOptions(), os)))
      return signalPassFailure();
  }

  Option<std::string> kind{*this, "kind", llvm::cl::desc("What to emit")};
  Option<std::string> output{*this, "output", llvm::cl::desc("File"),
                             llvm::cl::init("-")};
};

} // namespace

namespace mlir::fp8moe::test {
void registerTestArtifactPasses() {
  PassRegistration<TestWriteArtifact>();
  PassRegistration<TestEmit>();
}
} // namespace mlir::fp8moe::test
