//===- fp8moe-ir-fuzzer.cpp - Modules through the compiler ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The first line of an input says how it is compiled: "// CHIP STAGE
// OPTION...".
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Driver/Driver.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <sanitizer/lsan_interface.h>

using namespace fuzz;
using namespace mlir;
using namespace mlir::fp8moe;

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

/// Checks that a written module is parsed to the same module again.
static void checkRoundTrip(ModuleOp module, bool asBytecode,
                           Compiler &compiler) {
  std::string printed = print(module), written = printed;
  if (asBytecode) {
    written.clear();
    llvm::raw_string_ostream os(written);
    if (failed(writeBytecodeToFile(module, os)))
      return compiler.expectError();
  }
  auto again = parseSourceString<ModuleOp>(
      written, ParserConfig(&compiler.getContext()));
  if (!again)
    reportBroken("what was written can be read", compiler.getErrors());
  if (print(*again) != printed)
    reportBroken("what is read is what was written", printed);
}

/// Makes the report that a compilation with --report prints.
static llvm::json::Array makeReport(ModuleOp module, const TargetInfo &target,
                                    Report report) {
  TargetReport targetReport;
  targetReport.target = &target;
  targetReport.programs = collectTraffic(module);
  targetReport.decisions = collectDecisions(module, target);
  llvm::json::Array decisions = serializeDecisions(targetReport.decisions);
  report.targets.push_back(std::move(targetReport));
  std::string text;
  llvm::raw_string_ostream os(text);
  report.print(os);
  os << report.toJson();
  return decisions;
}

/// The format of a target's binary that needs no other program.
static StringRef getFormat(const TargetInfo &target) {
  if (target.kind == TargetKind::CPU)
    return "so";
  return target.kind == TargetKind::NVVM ? "ptx" : "hsaco";
}

/// The runtime must take what the compiler writes. (Launches of plans that were
/// written by hand are checked with the code, which most inputs do not make.)
static LogicalResult checkManifest(ModuleOp module, const TargetInfo &target,
                                   const llvm::json::Array &decisions) {
  std::string manifest;
  llvm::raw_string_ostream os(manifest);
  if (failed(writeManifest(module, target,
                           {{"kernels", getFormat(target).str(), "none"}},
                           decisions, os)))
    return failure();
  writeFile(getScratch() + "/manifest.json", manifest);
  writeFile(getScratch() + "/kernels", "none");
  if (!readArtifact(getScratch(), "none", manifest.size()))
    reportBroken("the runtime takes a manifest of the compiler", manifest);
  return success();
}

static LogicalResult emit(ModuleOp module, const TargetInfo &target,
                          StringRef stage) {
  const Stage *known =
      lookupStage(stage == "object" ? getFormat(target) : stage);
  if (!known || known->kind != StageKind::Product)
    return success();
  // LLVM's memory is lost at a fatal error, which becomes a diagnostic.
  __lsan::ScopedDisabler keepsMemory;
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  return emitTo(module, target, known->product, EmissionOptions(), os);
}

/// Compiles as `choice` says. A failure has reported an error.
static LogicalResult compile(ModuleOp module, StringRef choice,
                             Compiler &compiler) {
  auto [chip, options] = choice.split(' ');
  auto has = [options = options](StringRef option) {
    return llvm::is_contained(llvm::split(options, ' '), option);
  };
  auto hook = [&](PassManager &pm) {
    compiler.watch(pm, /*verifies=*/true);
    return success();
  };
  compiler.enter("target");
  if (TargetAttr own = lookupTargetAttr(module))
    chip = own.getChip();
  if (failed(setTarget(module, chip)))
    return failure();
  const TargetInfo &target = *lookupTarget(chip);
  bool hasPlans = !module.getOps<plan::ProgramOp>().empty();

  Report report;
  report.asWritten = collectTraffic(module);
  if (failed(runTensorPasses(module, hook, !has("keep-layouts"))))
    return failure();
  compiler.enter("report");
  llvm::json::Array decisions = makeReport(module, target, std::move(report));
  if (has("tensor"))
    return success();
  if (has("sweep"))
    return runSweep(module, hook);
  if (failed(runLowering(module, hook)))
    return failure();
  if (has("delays") && target.kind == TargetKind::NVVM &&
      failed(runDelays(module, /*seed=*/1, hook)))
    return failure();
  compiler.enter("emit");
  if (failed(emit(module, target, options.split(' ').first)))
    return failure();
  compiler.enter("manifest");
  return success(hasPlans ||
                 succeeded(checkManifest(module, target, decisions)));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [choice, text] = splitInput(getInput(data, size));
  Compiler compiler;
  OwningOpRef<ModuleOp> module = compiler.parse(text);
  if (!module)
    return 0;
  if (choice.ends_with(" text") || choice.ends_with(" bytes"))
    checkRoundTrip(*module, choice.ends_with(" bytes"), compiler);
  if (failed(compile(*module, choice.empty() ? "cpu" : choice, compiler)))
    compiler.expectError();
  return 0;
}

/// Chooses a chip and the last stage. The CPU is most likely, as its
/// compilation is fastest.
std::string fuzz::mutateChoice(StringRef old, StringRef, Random &random) {
  if (!old.empty() && random.oneIn(2))
    return old.str();
  static constexpr StringRef stages[] = {"llvm",   "asm",    "object", "sweep",
                                         "delays", "tensor", "tensor"};
  auto targets = knownTargets();
  std::string choice =
      (random.oneIn(4) ? random.pick(targets) : targets.front()).chip.str();
  choice += random.oneIn(9) ? " " + random.pick(stages).str() : " lower";
  if (random.oneIn(8))
    choice += " keep-layouts";
  if (random.oneIn(16))
    choice += random.oneIn(2) ? " text" : " bytes";
  return choice;
}
