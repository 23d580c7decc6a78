//===- ModuleReader.cpp - IR and bytecode through the compiler ------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Readers.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Driver/Driver.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {

/// Does what the pass manager's own verifier does, but its errors look like
/// those of the user's input.
class PassWatcher : public PassInstrumentation {
public:
  PassWatcher(Session &session, bool verifies)
      : session(session), verifies(verifies) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      session.enter(pass->getArgument());
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    if (verifies && !pass->getArgument().empty() && failed(verify(op)))
      session.report(("invalid IR after " + pass->getArgument()).str(),
                     session.getFirstError());
  }

private:
  Session &session;
  bool verifies;
};

} // namespace

void fuzz::watchPasses(PassManager &pm, Session &session, bool verifies) {
  pm.enableVerifier(!verifies);
  pm.addInstrumentation(std::make_unique<PassWatcher>(session, verifies));
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// The runtime must take what the compiler writes. (Launches of plans that were
/// written by hand are checked with the code, which most inputs do not make.)
static LogicalResult checkManifest(ModuleOp module, const TargetInfo &target,
                                   const llvm::json::Array &decisions,
                                   Session &session) {
  session.enter("manifest");
  std::string manifest;
  llvm::raw_string_ostream os(manifest);
  StringRef format = target.kind == TargetKind::CPU    ? "so"
                     : target.kind == TargetKind::NVVM ? "ptx"
                                                       : "hsaco";
  if (failed(writeManifest(module, target, {{"kernels", format.str(), "none"}},
                           decisions, os)))
    return failure();
  writeFile(session.getScratch() + "/manifest.json", manifest);
  writeFile(session.getScratch() + "/kernels", "none");
  Outcome outcome =
      readArtifact(session.getScratch(), "none", manifest.size(), session);
  if (!outcome.accepted)
    session.report("the runtime refuses a manifest of the compiler",
                   session.getFirstError());
  return success();
}

static LogicalResult emitStage(ModuleOp module, const TargetInfo &target,
                               StringRef stage, Session &session) {
  auto kind = llvm::StringSwitch<std::optional<EmitKind>>(stage)
                  .Case("llvm", EmitKind::LLVM)
                  .Case("asm", EmitKind::Assembly)
                  .Case("object",
                        target.kind == TargetKind::CPU ? EmitKind::SharedObject
                        : target.kind == TargetKind::ROCDL ? EmitKind::HSACO
                                                           : EmitKind::PTX)
                  .Default(std::nullopt);
  if (!kind)
    return success();
  session.enter(("emit " + stage).str());
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  return emitTo(module, target, *kind, EmissionOptions(), os);
}

Outcome fuzz::compileModule(ModuleOp module, StringRef choice,
                            Session &session) {
  Outcome outcome;
  outcome.accepted = true;
  SmallVector<StringRef> words;
  choice.split(words, ' ');
  StringRef chip = words[0], stage = words.size() > 1 ? words[1] : "lower";
  auto refuse = [&] {
    session.expectError();
    return outcome;
  };
  auto hook = [&](PassManager &pm) {
    watchPasses(pm, session);
    return success();
  };

  session.enter("target");
  if (TargetAttr own = lookupTargetAttr(module))
    chip = own.getChip();
  if (failed(setTarget(module, chip)))
    return refuse();
  const TargetInfo &target = *lookupTarget(chip);
  bool hasPlans = !module.getOps<plan::ProgramOp>().empty();

  session.enter("report");
  Report report;
  report.asWritten = collectTraffic(module);
  if (failed(runTensorPasses(module, hook,
                             !llvm::is_contained(words, "keep-layouts"))))
    return refuse();
  session.enter("decisions");
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

  if (stage == "sweep" && failed(runSweep(module, hook)))
    return refuse();
  if (stage == "tensor" || stage == "sweep")
    return outcome;
  if (failed(runLowering(module, hook)))
    return refuse();
  if (stage == "delays" && target.kind == TargetKind::NVVM &&
      failed(runDelays(module, /*seed=*/1, hook)))
    return refuse();
  if (failed(emitStage(module, target, stage, session)))
    return refuse();
  if (!hasPlans && failed(checkManifest(module, target, decisions, session)))
    return refuse();
  outcome.lowered = true;
  return outcome;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  return text;
}

/// Checks that a written module is read as the same again.
static void checkRoundTrip(ModuleOp module, bool asBytecode, Session &session) {
  session.enter(asBytecode ? "write and read bytecode" : "print and parse");
  std::string printed = print(module), written = printed;
  if (asBytecode) {
    written.clear();
    llvm::raw_string_ostream os(written);
    if (failed(writeBytecodeToFile(module, os)))
      return session.expectError();
  }
  OwningOpRef<ModuleOp> again =
      parseSourceString<ModuleOp>(written, ParserConfig(&session.getContext()));
  if (!again)
    session.report("cannot read again what was written",
                   session.getFirstError());
  if (print(*again) != printed)
    session.report("reads something else than what was written", printed);
}

/// MLIR reads types from bytecode without their verifiers, so that a tensor may
/// have a size that no text can say. fp8moe-verify-layouts refuses it.
static bool hasSizeBelowZero(ModuleOp module) {
  bool found = false;
  AttrTypeWalker walker;
  walker.addWalk([&](RankedTensorType type) {
    found |= llvm::any_of(type.getShape(), [](int64_t size) {
      return size < 0 && !ShapedType::isDynamic(size);
    });
  });
  module.walk([&](Operation *op) {
    walker.walk(op->getAttrDictionary());
    for (Type type : op->getResultTypes())
      walker.walk(type);
  });
  return found;
}

static Outcome readAndCompile(const Input &input, StringRef stage,
                              Session &session) {
  session.enter(stage);
  // A name makes locations that are not unknown.
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      input.bytes, ParserConfig(&session.getContext()), "input");
  if (!module) {
    // Upstream refuses some damaged bytecode without a word.
    if (input.kind != Kind::Bytecode)
      session.expectError();
    return {};
  }
  StringRef choice = input.choice;
  bool isText = choice.ends_with(" text"), isBytes = choice.ends_with(" bytes");
  if ((isText || isBytes) && !hasSizeBelowZero(*module))
    checkRoundTrip(*module, isBytes, session);
  return compileModule(*module, choice, session);
}

Outcome fuzz::readModule(const Input &input, Session &session) {
  return readAndCompile(input, "parse", session);
}

Outcome fuzz::readBytecode(const Input &input, Session &session) {
  return readAndCompile(input, kReadBytecode, session);
}
