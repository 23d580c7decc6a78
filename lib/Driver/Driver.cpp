//===- Driver.cpp - One module through the compiler -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Driver/Driver.h"

#include "KernelText.h"
#include "RemarkCollector.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "fp8moe/Kernels/Model/Occupancy.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SaveAndRestore.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

using namespace mlir;
using namespace mlir::fp8moe;

OwningOpRef<ModuleOp>
mlir::fp8moe::parseModule(const std::shared_ptr<llvm::SourceMgr> &sources,
                          MLIRContext &context) {
  bool hasError = false;
  ScopedDiagnosticHandler listener(&context, [&](Diagnostic &diagnostic) {
    hasError |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return failure();
  });
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  StringRef name =
      sources->getMemoryBuffer(sources->getMainFileID())->getBufferIdentifier();
  if (!module && !hasError)
    emitError(FileLineColLoc::get(&context, name, 0, 0))
        << "cannot be read: the bytecode is damaged; write it again";
  return module;
}

FailureOr<SmallVector<std::string>> Driver::getTargets(ModuleOp module) {
  llvm::SetVector<StringRef> targets(llvm::from_range, options.targets);
  if (!targets.empty())
    return llvm::to_vector_of<std::string>(targets);
  if (TargetAttr target = lookupTargetAttr(module))
    return SmallVector<std::string>{target.getChip().str()};
  if (!options.defaultTarget.empty())
    return SmallVector<std::string>{options.defaultTarget};
  return module.emitError("no target to compile for; name one (--target=CHIP; "
                          "in Python targets=[\"CHIP\"]), or set "
                          "'fp8moe.target' on the module. Known targets: ")
         << listKnownTargets();
}

/// Functions of nested modules would not be in the artifact.
static LogicalResult verifyNoNestedModules(ModuleOp module) {
  auto nested = module.getOps<ModuleOp>();
  if (nested.empty())
    return success();
  return (*nested.begin())
      .emitError("a module within a module: only the outer one's functions "
                 "are compiled; move those of the inner one there, "
                 "or compile it by itself");
}

FailureOr<OwningOpRef<ModuleOp>> Driver::cloneFor(ModuleOp module,
                                                  StringRef chip) {
  if (failed(verifyNoNestedModules(module)))
    return failure();
  OwningOpRef<ModuleOp> clone(module.clone());
  if (failed(setTarget(*clone, chip)))
    return failure();
  return clone;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// One entry per kernel that a program launches, in the order of first launch.
static std::vector<KernelReport>
collectKernels(ModuleOp module, ArrayRef<KernelResources> resources,
               const TargetInfo &target) {
  llvm::StringMap<int64_t> threads;
  llvm::MapVector<StringRef, KernelReport> kernels;
  module.walk([&](plan::LaunchOp launch) {
    StringRef name = launch.getKernel().getLeafReference().getValue();
    KernelReport &kernel = kernels[name];
    kernel.name = name.str();
    ++kernel.launches;
    kernel.conditionalLaunches += launch.getCondition() != nullptr;
    auto [x, y, z] = launch.getBlock();
    kernel.block = llvm::formatv("{0}x{1}x{2}", x, y, z);
    threads[name] = int64_t(x) * y * z;
    kernel.sharedMemory =
        std::max<int64_t>(kernel.sharedMemory, launch.getSharedBytes());
  });
  for (const KernelResources &resource : resources) {
    auto it = kernels.find(resource.kernel);
    if (it == kernels.end())
      continue;
    KernelReport &kernel = it->second;
    kernel.resources = resource;
    kernel.sharedMemory += resource.staticSharedBytes;
    kernel.residentBlocks = countResidentBlocks(
        threads[kernel.name], resource.registers, kernel.sharedMemory, target);
  }
  std::vector<KernelReport> result;
  for (auto &entry : kernels)
    result.push_back(std::move(entry.second));
  return result;
}

LogicalResult Driver::configure(PassManager &pm) {
  if (options.emission.timing)
    pm.enableTiming(*options.emission.timing);
  return options.passManagerHook(pm);
}

LogicalResult Driver::runDecisions(ModuleOp module) {
  auto hook = [this](PassManager &pm) { return configure(pm); };
  if (failed(runTensorPasses(module, hook, options.optimizeLayouts,
                             options.precision)))
    return failure();
  return options.sweepTiles ? runSweep(module, hook) : success();
}

LogicalResult Driver::runKernels(ModuleOp module) {
  auto hook = [this](PassManager &pm) { return configure(pm); };
  if (failed(runLowering(module, hook)))
    return failure();
  if (!options.delaySeed)
    return success();
  FailureOr<TargetAttr> target = requireTargetAttr(module);
  if (failed(target))
    return failure();
  if (target->getInfo().kind != TargetKind::NVVM)
    return module.emitError("cannot delay warps on target ")
           << target->getInfo().chip
           << "; only kernels for NVIDIA GPUs have pauses";
  return runDelays(module, *options.delaySeed, hook);
}

FailureOr<TargetReport> Driver::writeArtifact(ModuleOp module, StringRef chip,
                                              StringRef folder,
                                              RemarkCollector *remarks) {
  auto start = std::chrono::steady_clock::now();
  TimingScope time = options.emission.time(chip);
  llvm::SaveAndRestore timing(options.emission.timing, &time);
  if (failed(runDecisions(module)))
    return failure();
  const TargetInfo *target = lookupTarget(chip);
  std::vector<KernelDecision> decisions = collectDecisions(module, *target);
  TargetReport report;
  bool isOnCard = options.card && options.card->info.chip == chip;
  report.target = isOnCard ? &options.card->info : target;
  report.programs = collectTraffic(module);
  report.precision = collectPrecision(module);
  if (remarks)
    report.remarks = remarks->take();
  report.decisions =
      isOnCard ? collectDecisions(module, *report.target) : decisions;
  if (failed(runKernels(module)))
    return failure();

  SmallString<128> path(folder);
  llvm::sys::path::append(path, chip);
  FailureOr<ArtifactReport> artifact = fp8moe::writeArtifact(
      module, *target, path, options.emission, serializeDecisions(decisions));
  if (failed(artifact))
    return failure();
  report.kernels = collectKernels(module, artifact->resources, *report.target);
  report.files = std::move(artifact->files);
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return report;
}

LogicalResult Driver::writeArtifacts(ModuleOp module, StringRef folder,
                                     Report &report) {
  FailureOr<SmallVector<std::string>> targets = getTargets(module);
  if (failed(targets))
    return failure();
  if (options.card && !llvm::is_contained(*targets, options.card->info.chip))
    return module.emitError("card '")
           << options.card->name << "' has chip " << options.card->info.chip
           << ", which is none of the targets: " << llvm::join(*targets, ", ");
  report.asWritten = collectTraffic(module);
  // A target that does not fit the module is found before anything is written.
  SmallVector<OwningOpRef<ModuleOp>> clones;
  for (StringRef chip : *targets) {
    FailureOr<OwningOpRef<ModuleOp>> clone = cloneFor(module, chip);
    if (failed(clone))
      return failure();
    clones.push_back(std::move(*clone));
  }
  std::optional<RemarkCollector> remarks;
  if (options.explain)
    remarks.emplace(*module.getContext());
  for (auto [chip, clone] : llvm::zip_equal(*targets, clones)) {
    FailureOr<TargetReport> target =
        writeArtifact(*clone, chip, folder, remarks ? &*remarks : nullptr);
    if (failed(target))
      return failure();
    report.targets.push_back(std::move(*target));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Single stages
//===----------------------------------------------------------------------===//

ArrayRef<Stage> mlir::fp8moe::knownStages() {
  constexpr StageKind product = StageKind::Product;
  static constexpr Stage stages[] = {
      {StageKind::Tensor, "tensor", "tensor IR with all decisions"},
      {StageKind::Kernel, "kernel", "plans and kernels of a GPU, to read"},
      {StageKind::Mlir, "mlir", "plans and kernels, lowered"},
      {product, "llvm", "LLVM IR, optimized", EmitKind::LLVM},
      {product, "asm", "PTX, AMDGCN or x86 assembly", EmitKind::Assembly},
      {product, "ptx", "NVIDIA assembly", EmitKind::PTX},
      {product, "cubin", "NVIDIA binary (needs ptxas)", EmitKind::Cubin},
      {product, "hsaco", "AMD binary", EmitKind::HSACO},
      {product, "so", "shared library of the CPU", EmitKind::SharedObject},
  };
  return stages;
}

const Stage *mlir::fp8moe::lookupStage(StringRef name) {
  const Stage *stage = llvm::find_if(
      knownStages(), [&](const Stage &each) { return each.name == name; });
  return stage == knownStages().end() ? nullptr : stage;
}

LogicalResult Driver::emitKernels(ModuleOp module, raw_ostream &os) {
  auto hook = [this](PassManager &pm) { return configure(pm); };
  KernelText text(module);
  if (failed(runKernelEmission(module, hook)))
    return failure();
  text.describe(module);
  if (failed(runKernelOutlining(module, hook)))
    return failure();
  text.print(module, os);
  return success();
}

LogicalResult Driver::emit(ModuleOp module, const Stage &stage,
                           raw_ostream &os) {
  FailureOr<SmallVector<std::string>> targets = getTargets(module);
  if (failed(targets))
    return failure();
  if (targets->size() != 1)
    return module.emitError("--emit shows one target, but there are ")
           << targets->size() << "; name one with --target";

  FailureOr<OwningOpRef<ModuleOp>> clone = cloneFor(module, targets->front());
  if (failed(clone) || failed(runDecisions(**clone)))
    return failure();
  if (stage.kind == StageKind::Kernel)
    return emitKernels(**clone, os);
  if (stage.kind != StageKind::Tensor && failed(runKernels(**clone)))
    return failure();
  if (stage.kind == StageKind::Product)
    return emitTo(**clone, *lookupTarget(targets->front()), stage.product,
                  options.emission, os);
  (*clone)->print(os);
  return success();
}
