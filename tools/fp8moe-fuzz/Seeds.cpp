//===- Seeds.cpp - Seeds that are made from others ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Seeds.h"

#include "Readers.h"
#include "Worker.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Driver/Driver.h"
#include "fp8moe/Support/Safetensors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/StringSaver.h"

#include <algorithm>
#include <set>

using namespace fuzz;
using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static bool isTensorLevel(ModuleOp module) {
  bool hasOurs = false;
  WalkResult result = module.walk([&](Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    hasOurs |= dialect == FP8MoEDialect::getDialectNamespace();
    bool isLow =
        llvm::StringSwitch<bool>(dialect)
            .Cases({"fp8moe_plan", "gpu", "llvm", "nvvm", "rocdl", "memref"},
                   true)
            .Default(false);
    return isLow ? WalkResult::interrupt() : WalkResult::advance();
  });
  return hasOurs && !result.wasInterrupted();
}

/// `name` and the functions that it calls, directly or not.
static std::set<StringRef> getCallees(ModuleOp module, StringRef name) {
  std::set<StringRef> result;
  std::vector<StringRef> worklist = {name};
  while (!worklist.empty()) {
    StringRef next = worklist.back();
    worklist.pop_back();
    auto function = module.lookupSymbol<func::FuncOp>(next);
    if (!function || !result.insert(next).second)
      continue;
    function.walk(
        [&](func::CallOp call) { worklist.push_back(call.getCallee()); });
  }
  return result;
}

std::vector<std::string> fuzz::splitPrograms(ModuleOp module) {
  std::vector<std::string> programs;
  if (!isTensorLevel(module))
    return programs;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isDeclaration())
      continue;
    std::set<StringRef> kept = getCallees(module, function.getName());
    OwningOpRef<ModuleOp> clone(module.clone());
    // Any target may compile it.
    (*clone)->removeAttr(FP8MoEDialect::kTargetAttrName);
    for (auto other : llvm::make_early_inc_range(clone->getOps<func::FuncOp>()))
      if (!kept.count(other.getName()))
        other.erase();
    std::string text;
    llvm::raw_string_ostream os(text);
    clone->print(os);
    programs.push_back(text);
  }
  return programs;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// The commands of a test, with continued lines joined.
static std::vector<std::string> getCommands(StringRef test) {
  std::vector<std::string> commands;
  bool isContinued = false;
  for (StringRef line : llvm::split(test, '\n')) {
    auto [before, command] = line.split("RUN:");
    if (before.size() == line.size())
      continue;
    command = command.trim();
    std::string text = isContinued ? commands.back() + " " : "";
    if (isContinued)
      commands.pop_back();
    isContinued = command.consume_back("\\");
    commands.push_back(text + command.str());
  }
  return commands;
}

static bool isPass(StringRef name) {
  return PassInfo::lookup(name) || PassPipelineInfo::lookup(name);
}

std::vector<PipelineSeed> fuzz::extractPipelines(StringRef test) {
  std::vector<PipelineSeed> pipelines;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  for (const std::string &command : getCommands(test)) {
    // Only what stands before the first pipe.
    SmallVector<const char *> words;
    llvm::cl::TokenizeGNUCommandLine(StringRef(command).split(" |").first,
                                     saver, words);
    std::vector<std::string> passes;
    for (StringRef word : words) {
      word = word.ltrim('-');
      auto [name, value] = word.split('=');
      if (name == "pass-pipeline")
        pipelines.push_back({/*isAnchored=*/true, value.str(), {}});
      else if (isPass(name))
        passes.push_back(value.empty() ? name.str()
                                       : (name + "{" + value + "}").str());
    }
    if (!passes.empty())
      pipelines.push_back({/*isAnchored=*/false, llvm::join(passes, ","), {}});
  }
  return pipelines;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// How many artifacts each target gets.
static constexpr size_t kArtifactsPerTarget = 5;

static LogicalResult hook(PassManager &) { return success(); }

/// Names of the operations in a program, to tell programs apart.
static std::string summarize(ModuleOp module) {
  std::set<std::string> names;
  module.walk(
      [&](Operation *op) { names.insert(op->getName().getStringRef().str()); });
  return llvm::join(names, ",");
}

/// An artifact of NVIDIA's with a binary that nobody reads: ptxas, which not
/// every machine has, must not decide what the seeds are.
static LogicalResult writeWithoutBinary(ModuleOp module,
                                        const TargetInfo &target,
                                        const std::string &folder) {
  if (failed(setTarget(module, target.chip)) ||
      failed(runTensorPasses(module, hook)) ||
      failed(runLowering(module, hook)))
    return failure();
  std::string manifest;
  llvm::raw_string_ostream os(manifest);
  if (failed(writeManifest(module, target, {{"kernels.ptx", "ptx", "none"}}, {},
                           os)))
    return failure();
  (void)llvm::sys::fs::create_directories(folder);
  writeFile(folder + "/kernels.ptx", "none");
  writeFile(folder + "/manifest.json", manifest);
  return success();
}

/// Writes the artifacts to `folder`/NAME/CHIP.
static void writeArtifacts(const std::vector<ModuleSeed> &programs,
                           const std::string &folder) {
  MLIRContext context(getRegistry(), MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  for (StringRef chip : {"cpu", "sm_90a", "gfx942"}) {
    const TargetInfo &target = *lookupTarget(chip);
    std::set<std::string> known;
    for (size_t i = 0;
         i < programs.size() && known.size() < kArtifactsPerTarget; ++i) {
      OwningOpRef<ModuleOp> module =
          parseSourceString<ModuleOp>(programs[i].text, ParserConfig(&context));
      std::string summary = summarize(*module);
      if (known.count(summary))
        continue;
      std::string path = llvm::formatv("{0}/{1,0+4}", folder, i);
      DriverOptions options;
      options.targets = {chip.str()};
      options.passManagerHook = hook;
      Report report;
      LogicalResult result =
          target.kind == TargetKind::NVVM
              ? writeWithoutBinary(*module, target, path + "/" + chip.str())
              : Driver(options).writeArtifacts(*module, path, report);
      if (succeeded(result))
        known.insert(summary);
    }
  }
}

static std::vector<std::string> listFolder(const llvm::Twine &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error))
    paths.push_back(it->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

static std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

std::vector<ArtifactSeed>
fuzz::compileArtifacts(const std::vector<ModuleSeed> &programs,
                       StringRef scratch) {
  std::string folder = (scratch + "/artifacts").str();
  // The compiler may die of a seed too, and what it leaves in the process
  // should not be in that of every worker.
  Slot &slot = makeSlot();
  Child(slot, (scratch + "/artifacts.log").str(), [&] {
    writeArtifacts(programs, folder);
  }).wait();
  std::vector<ArtifactSeed> artifacts;
  for (const std::string &program : listFolder(folder))
    for (const std::string &path : listFolder(program)) {
      ArtifactSeed seed;
      seed.chip = llvm::sys::path::filename(path).str();
      seed.name = seed.chip + "-" + llvm::sys::path::filename(program).str();
      seed.manifest = readFile(path + "/manifest.json");
      for (const std::string &file : listFolder(path))
        if (!StringRef(file).ends_with("manifest.json"))
          seed.files.emplace_back(llvm::sys::path::filename(file).str(),
                                  readFile(file));
      if (!seed.manifest.empty())
        artifacts.push_back(std::move(seed));
    }
  return artifacts;
}

//===----------------------------------------------------------------------===//
// Safetensors
//===----------------------------------------------------------------------===//

std::vector<std::string> fuzz::makeSafetensors(StringRef scratch) {
  using namespace ::fp8moe::support;
  std::vector<std::string> files;
  std::string data(4096, 'x');
  std::string path = (scratch + "/seed.safetensors").str();
  for (size_t count : {0, 1, 3, 19}) {
    std::vector<SafetensorsTensor> tensors;
    for (size_t i = 0; i < count; ++i) {
      SafetensorsTensor tensor;
      tensor.name = "t" + std::to_string(i);
      tensor.dtype = findDataType(static_cast<int32_t>(i % 18 + 1));
      tensor.shape.assign(i % 5, 1 + i % 3);
      tensor.data = data.data();
      tensors.push_back(tensor);
    }
    std::string error;
    if (!writeSafetensors(path, tensors, {{"seed", "of the fuzzer"}}, error))
      continue;
    if (auto buffer = llvm::MemoryBuffer::getFile(path, false, false))
      files.push_back((*buffer)->getBuffer().str());
  }
  llvm::sys::fs::remove(path);
  return files;
}
