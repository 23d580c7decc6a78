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

namespace mlir::fp8moe {

class RemarkCollector;

/// The stage whose IR or product `--emit` shows.
enum class Stage {
  None,
  Tensor,
  Kernel,
  Mlir,
  Llvm,
  Asm,
  Ptx,
  Cubin,
  Hsaco,
  So
};

struct StageInfo {
  Stage stage;
  /// As users write it: "ptx".
  StringLiteral name;
  /// A line for people.
  StringLiteral description;
  /// The product that lib/Artifact makes for it; nothing for IR of MLIR.
  std::optional<EmitKind> product;
};

/// Every stage but None, in the order of a compilation.
ArrayRef<StageInfo> knownStages();

/// The stage of that name.
std::optional<Stage> parseStage(StringRef name);

std::optional<EmitKind> getProduct(Stage stage);

struct DriverOptions {
  /// Known chips; when empty the module names its target.
  std::vector<std::string> targets;
  /// The known chip for a module that names none; may be empty.
  std::string defaultTarget;
  EmissionOptions emission;
  PassManagerHook passManagerHook;
  bool optimizeLayouts = true;
  /// How undecided matmuls are decided.
  SelectPrecisionOptions precision;
  /// Add a program for every tile of every quantization.
  bool sweepTiles = false;
  /// The card that reports predict for, of the chip of one of the targets; null
  /// for that of the table of chips. The compiled artifact is the same.
  const CardInfo *card = nullptr;
  /// Emit what the layout passes do to each copy as remarks, and report it.
  bool explain = false;
  /// Pause warps of NVVM kernels, to find races.
  std::optional<int64_t> delaySeed;
};

/// Compiles modules as the command line says. Every failure has been reported
/// as a diagnostic when a function returns it.
class Driver {
public:
  explicit Driver(DriverOptions options) : options(std::move(options)) {}

  /// Records the time of each step below `scope`, which outlives the driver.
  void enableTiming(TimingScope &scope) { options.emission.timing = &scope; }

  /// Writes one artifact per target to `folder`/CHIP and fills in `report`.
  LogicalResult writeArtifacts(ModuleOp module, StringRef folder,
                               Report &report);

  /// Writes `module`, compiled up to `stage` for its only target, to `os`.
  LogicalResult emit(ModuleOp module, Stage stage, raw_ostream &os);

private:
  /// The targets of `module`: those of the command line, the one it names, or
  /// the default.
  FailureOr<SmallVector<std::string>> getTargets(ModuleOp module);

  /// A copy of `module` with its target set.
  FailureOr<OwningOpRef<ModuleOp>> cloneFor(ModuleOp module, StringRef chip);

  /// Runs what comes before kernels: all decisions are in the module then.
  LogicalResult runDecisions(ModuleOp module);

  /// Turns them into kernels in the LLVM dialect and plans.
  LogicalResult runKernels(ModuleOp module);
  LogicalResult emitKernels(ModuleOp module, raw_ostream &os);

  /// Compiles `module`, whose target is set to `chip`.
  FailureOr<TargetReport> writeArtifact(ModuleOp module, StringRef chip,
                                        StringRef folder,
                                        RemarkCollector *remarks);

  /// Configures a pass manager as the options say, and times it.
  LogicalResult configure(PassManager &pm);

  DriverOptions options;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_DRIVER_DRIVER_H
