//===- Driver.h - One module through the compiler ---------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DRIVER_DRIVER_H
#define FP8MOE_DRIVER_DRIVER_H

#include "fp8moe/Driver/Report.h"

#include "fp8moe/Artifact/ArtifactWriter.h"
#include "fp8moe/Pipelines/Compiler.h"
#include "fp8moe/Target/Cards.h"

#include <optional>
#include <string>
#include <vector>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir::fp8moe {

class RemarkCollector;

/// The kind of stage whose IR or product `--emit` shows.
enum class StageKind { Tensor, Kernel, Mlir, Product };

struct Stage {
  StageKind kind;
  /// The name on the command line: "ptx".
  StringLiteral name;
  /// One line of help text.
  StringLiteral description;
  /// The product that lib/Artifact makes, if it does.
  EmitKind product = {};
};

/// Returns every stage, in the order of a compilation.
ArrayRef<Stage> knownStages();

/// Returns the stage of that name, or null.
const Stage *lookupStage(StringRef name);

/// Parses the main buffer of `sources`. Reports each failure, also of damaged
/// bytecode, some of which MLIR refuses without a word.
OwningOpRef<ModuleOp>
parseModule(const std::shared_ptr<llvm::SourceMgr> &sources,
            MLIRContext &context);

struct DriverOptions {
  /// Names of known chips. If empty, the module names its target.
  std::vector<std::string> targets;
  /// The chip for a module that names no target; may be empty.
  std::string defaultTarget;
  EmissionOptions emission;
  PassManagerHook passManagerHook;
  bool optimizeLayouts = true;
  /// Options for matmuls whose precision is undecided.
  SelectPrecisionOptions precision;
  /// Whether to add a program for every tile of every quantization.
  bool sweepTiles = false;
  /// The card that reports predict times for. Its chip must be one of the
  /// targets. Null: the card in the table of chips. The artifact does not
  /// depend on it.
  const CardInfo *card = nullptr;
  /// Whether to emit the decisions of the layout passes as remarks and in
  /// reports.
  bool explain = false;
  /// The seed of delays that are inserted into NVVM kernels to find races, if
  /// any.
  std::optional<int64_t> delaySeed;
};

/// Compiles modules with the given options. Functions report each failure as a
/// diagnostic before they return it.
class Driver {
public:
  explicit Driver(DriverOptions options) : options(std::move(options)) {}

  /// Records the time of each step below `scope`, which must outlive the
  /// driver.
  void enableTiming(TimingScope &scope) { options.emission.timing = &scope; }

  /// Writes one artifact per target to `folder`/CHIP and fills in `report`.
  LogicalResult writeArtifacts(ModuleOp module, StringRef folder,
                               Report &report);

  /// Compiles `module` for its only target up to `stage` and writes the result
  /// to `os`.
  LogicalResult emit(ModuleOp module, const Stage &stage, raw_ostream &os);

private:
  /// Returns the targets of `module`: those of the options, the one that it
  /// names, or the default.
  FailureOr<SmallVector<std::string>> getTargets(ModuleOp module);

  /// Clones `module` and sets the target of the clone.
  FailureOr<OwningOpRef<ModuleOp>> cloneFor(ModuleOp module, StringRef chip);

  /// Runs the passes before the lowering to kernels. They write all decisions
  /// to `module`.
  LogicalResult runDecisions(ModuleOp module);

  /// Lowers `module`, which has all decisions, to kernels in the LLVM dialect
  /// and host plans.
  LogicalResult runKernels(ModuleOp module);
  LogicalResult emitKernels(ModuleOp module, raw_ostream &os);

  /// Compiles `module`, whose target is set to `chip`.
  FailureOr<TargetReport> writeArtifact(ModuleOp module, StringRef chip,
                                        StringRef folder,
                                        RemarkCollector *remarks);

  /// Configures and times a pass manager as the options say.
  LogicalResult configure(PassManager &pm);

  DriverOptions options;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_DRIVER_DRIVER_H
