//===- Compiler.cpp - C API of the compiler -------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Compiler.h"

#include "fp8moe/Driver/Driver.h"
#include "fp8moe/InitAll.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include "mlir/InitAllPasses.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moeRegisterAllPasses() {
  static const bool registered = [] {
    mlir::registerAllPasses();
    fp8moe::registerAllPasses();
    return true;
  }();
  (void)registered;
}

MlirStringRef fp8moeCompilerVersion() {
  return wrap(StringRef(FP8MOE_VERSION ", LLVM " LLVM_VERSION_STRING));
}

intptr_t fp8moeGetNumTargets() {
  return static_cast<intptr_t>(knownTargets().size());
}

MlirStringRef fp8moeTargetGetChip(intptr_t index) {
  return wrap(StringRef(knownTargets()[index].chip));
}

MlirStringRef fp8moeTargetGetDescription(intptr_t index) {
  return wrap(StringRef(knownTargets()[index].description));
}

Fp8moeCompileOptions fp8moeCompileOptionsGet() {
  Fp8moeCompileOptions options = {};
  options.optimizeLayouts = true;
  options.tokens = kDefaultReportTokens;
  return options;
}

/// Reports an unknown chip or card. The driver is only given known ones.
static FailureOr<DriverOptions>
getDriverOptions(ModuleOp module, const Fp8moeCompileOptions &options) {
  DriverOptions result;
  for (intptr_t i = 0; i < options.numTargets; ++i) {
    StringRef chip = unwrap(options.targets[i]);
    if (!lookupTarget(chip))
      return module.emitError() << describeUnknownTarget(chip);
    result.targets.push_back(chip.str());
  }
  if (StringRef name = unwrap(options.card); !name.empty()) {
    result.card = lookupCard(name);
    if (!result.card)
      return module.emitError() << describeUnknownCard(name);
  }
  result.emission.ptxasPath = unwrap(options.ptxasPath).str();
  result.emission.rocmPath = unwrap(options.rocmPath).str();
  result.optimizeLayouts = options.optimizeLayouts;
  SelectPrecisionOptions &precision = result.precision;
  auto setText = [](std::string &option, MlirStringRef text) {
    if (text.length)
      option = unwrap(text).str();
  };
  setText(precision.policy, options.precisionPolicy);
  setText(precision.recipe, options.precisionRecipe);
  setText(precision.chip, options.precisionFor);
  for (intptr_t i = 0; i < options.numPrecisionFilters; ++i)
    precision.filterFqns.push_back(unwrap(options.precisionFilters[i]).str());
  precision.tokens = options.precisionTokens;
  result.passManagerHook = [](PassManager &) { return success(); };
  return result;
}

MlirLogicalResult fp8moeCompile(MlirModule module, MlirStringRef folder,
                                const Fp8moeCompileOptions *options,
                                MlirStringCallback text,
                                MlirStringCallback json, void *userData) {
  FailureOr<DriverOptions> driverOptions =
      getDriverOptions(unwrap(module), *options);
  if (failed(driverOptions))
    return mlirLogicalResultFailure();
  driverOptions->explain = json != nullptr;
  Driver driver(std::move(*driverOptions));
  Report report;
  report.tokens = options->tokens;
  if (failed(driver.writeArtifacts(unwrap(module), unwrap(folder), report)))
    return mlirLogicalResultFailure();
  if (text) {
    mlir::detail::CallbackOstream os(text, userData);
    report.print(os);
  }
  if (json) {
    mlir::detail::CallbackOstream os(json, userData);
    os << report.toJson();
  }
  return mlirLogicalResultSuccess();
}

MlirLogicalResult fp8moeEmit(MlirModule module, MlirStringRef stage,
                             const Fp8moeCompileOptions *options,
                             MlirStringCallback output, void *userData) {
  const Stage *known = lookupStage(unwrap(stage));
  if (!known) {
    InFlightDiagnostic error = unwrap(module).emitError("unknown stage '")
                               << unwrap(stage) << "'; the stages are ";
    llvm::interleaveComma(knownStages(), error,
                          [&](const Stage &each) { error << each.name; });
    return mlirLogicalResultFailure();
  }
  FailureOr<DriverOptions> driverOptions =
      getDriverOptions(unwrap(module), *options);
  if (failed(driverOptions))
    return mlirLogicalResultFailure();
  Driver driver(std::move(*driverOptions));
  mlir::detail::CallbackOstream os(output, userData);
  return wrap(driver.emit(unwrap(module), *known, os));
}

MlirLogicalResult fp8moeOptimize(MlirModule module, MlirStringRef target,
                                 bool optimizeLayouts) {
  ModuleOp op = unwrap(module);
  if (!unwrap(target).empty() && failed(setTarget(op, unwrap(target))))
    return mlirLogicalResultFailure();
  return wrap(runTensorPasses(
      op, [](PassManager &) { return success(); }, optimizeLayouts));
}
