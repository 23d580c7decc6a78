//===- Pipelines.cpp - The order of the passes ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Pipelines/Pipelines.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::fp8moe;

static void addLayoutPasses(OpPassManager &functions,
                            bool verifyOptimal = false) {
  SettleLayoutsOptions settling;
  settling.verifyOptimal = verifyOptimal;
  functions.addPass(createSettleLayouts(settling));
  functions.addPass(createReportCopies());
}

void fp8moe::buildLayoutPipeline(OpPassManager &pm, bool verifyOptimal) {
  addLayoutPasses(pm.nest<func::FuncOp>(), verifyOptimal);
}

void fp8moe::buildTensorPipeline(OpPassManager &pm, bool optimizeLayouts,
                                 const SelectPrecisionOptions &precision) {
  pm.addPass(createResolveFp8Types());
  pm.addPass(createVerifyLayouts());
  // Programs are lowered one function at a time: nothing is called.
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  // Most programs have nothing to decide.
  SelectPrecisionOptions quiet = precision;
  quiet.warnIfEmpty = false;
  pm.addPass(createSelectPrecision(quiet));
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createApplyPrecision());
  functions.addPass(createExpandMXMatmuls());
  functions.addPass(createUnrollLoops());
  if (optimizeLayouts) {
    addLayoutPasses(functions);
    functions.addPass(createPadGroups());
  }
  functions.addPass(createSelectTiles());
  // Passes from upstream may drop an encoding.
  functions.addPass(createVerifyLayouts());
  functions.addPass(createVerifyKernels());
}

void fp8moe::buildLoweringPipeline(OpPassManager &pm,
                                   const TargetInfo &target) {
  if (target.isGPU()) {
    pm.addPass(createConvertFP8MoEToGPU());
    return buildGPUToTargetPipeline(pm, target);
  }
  pm.addPass(createPlanCPUEntries());
  pm.addPass(createConvertFP8MoEToLoops());
  // Sizes of buffers become sizes of arguments.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addPass(createPlanCPUWorkspaces());
  pm.addPass(createDefineCPUEntries());
  buildLoopsToLLVMPipeline(pm);
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

namespace {
struct LayoutOptions : PassPipelineOptions<LayoutOptions> {
  Option<bool> verifyOptimal{
      *this, "verify-optimal",
      llvm::cl::desc("Compare every placement of layouts with all others"),
      llvm::cl::init(false)};
};

struct ToTargetOptions : PassPipelineOptions<ToTargetOptions> {
  Option<std::string> chip{*this, "chip",
                           llvm::cl::desc("The chip to compile for"),
                           llvm::cl::init("")};
  Option<bool> optimizeLayouts{
      *this, "optimize-layouts",
      llvm::cl::desc("Run the layout passes (--fp8moe-optimize-layouts)"),
      llvm::cl::init(true)};
};
} // namespace

/// The chips of one kind, for a diagnostic.
static std::string listTargets(TargetKind kind) {
  std::string names;
  for (const TargetInfo &target : knownTargets())
    if (target.kind == kind)
      names += (names.empty() ? "" : ", ") + target.chip.str();
  return names;
}

using ErrorHandler = function_ref<LogicalResult(const Twine &)>;

/// Registers a pipeline that runs on modules. Adding its passes to the pipeline
/// of another operation would be a fatal error of MLIR, or run nothing.
template <typename Options>
static void registerModulePipeline(
    StringRef name, StringRef description,
    std::function<LogicalResult(OpPassManager &, const Options &, ErrorHandler)>
        build) {
  auto buildFromText = [name = name.str(), build](OpPassManager &pm,
                                                  StringRef text,
                                                  ErrorHandler onError) {
    std::optional<StringRef> anchor = pm.getOpName();
    if (anchor && *anchor != ModuleOp::getOperationName())
      return onError("'" + name + "' is in the pipeline of '" + *anchor +
                     "', but runs on 'builtin.module': move it out of '" +
                     *anchor + "(...)'");
    Options options;
    if (failed(options.parseFromString(text)))
      return failure();
    return build(pm, options, onError);
  };
  registerPassPipeline(name, description, buildFromText,
                       [](function_ref<void(const detail::PassOptions &)> see) {
                         see(Options());
                       });
}

/// Registers the whole way from tensors to the LLVM dialect for the chips of
/// one kind. A pipeline is built before the module is seen, so the chip is an
/// option.
static void registerPipeline(StringRef name, StringRef description,
                             TargetKind kind, StringRef defaultChip) {
  auto build = [kind, name = name.str(), defaultChip = defaultChip.str()](
                   OpPassManager &pm, const ToTargetOptions &options,
                   ErrorHandler onError) {
    std::string chip = options.chip.empty() ? defaultChip : options.chip;
    const TargetInfo *target = lookupTarget(chip);
    if (!target || target->kind != kind)
      return onError("--" + name + " needs chip=CHIP, one of " +
                     listTargets(kind) + "; found '" + chip + "'");
    AttachTargetOptions attach;
    attach.chip = chip;
    pm.addPass(createAttachTarget(attach));
    buildTensorPipeline(pm, options.optimizeLayouts);
    buildLoweringPipeline(pm, *target);
    return success();
  };
  registerModulePipeline<ToTargetOptions>(name, description, build);
}

void fp8moe::registerPipelines() {
  registerModulePipeline<LayoutOptions>(
      "fp8moe-optimize-layouts",
      "Fold views, fuse quantizations and place layouts, so that no byte moves "
      "only to change its order",
      [](OpPassManager &pm, const LayoutOptions &options, ErrorHandler) {
        buildLayoutPipeline(pm, options.verifyOptimal);
        return success();
      });
  registerModulePipeline<EmptyPipelineOptions>(
      "fp8moe-loops-to-llvm",
      "Lower what convert-fp8moe-to-loops makes to the LLVM dialect, without "
      "calls of runtime libraries other than malloc and free",
      [](OpPassManager &pm, const EmptyPipelineOptions &, ErrorHandler) {
        buildLoopsToLLVMPipeline(pm);
        return success();
      });
  registerPipeline("fp8moe-to-cpu",
                   "Lower tensors to host plans and LLVM for the CPU",
                   TargetKind::CPU, "cpu");
  registerPipeline("fp8moe-to-nvvm",
                   "Lower tensors to host plans and NVVM for an NVIDIA GPU",
                   TargetKind::NVVM, "");
  registerPipeline("fp8moe-to-rocdl",
                   "Lower tensors to host plans and ROCDL for an AMD GPU",
                   TargetKind::ROCDL, "");
}
