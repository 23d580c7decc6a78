//===- Compiler.h - C API of the compiler -------------------------*- C -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The functions of fp8moe-compile, on modules in memory. Failures are
// diagnostics of the module's context (mlir-c/Diagnostics.h).
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_C_COMPILER_H
#define FP8MOE_C_COMPILER_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Registers the passes and pipelines of fp8moe and of MLIR for
/// mlirParsePassPipeline. May be called more than once, from any thread.
MLIR_CAPI_EXPORTED void fp8moeRegisterAllPasses(void);

/// Returns the versions of fp8moe and LLVM, such as "0.1.0, LLVM 22.1.8".
MLIR_CAPI_EXPORTED MlirStringRef fp8moeCompilerVersion(void);

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED intptr_t fp8moeGetNumTargets(void);

/// Returns the name of a chip, such as "sm_90a". `index` must be less than
/// fp8moeGetNumTargets().
MLIR_CAPI_EXPORTED MlirStringRef fp8moeTargetGetChip(intptr_t index);

/// Returns one line of description.
MLIR_CAPI_EXPORTED MlirStringRef fp8moeTargetGetDescription(intptr_t index);

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

typedef struct Fp8moeCompileOptions {
  /// Names of chips. If empty, the module names its target.
  const MlirStringRef *targets;
  intptr_t numTargets;
  /// Whether to run the layout passes.
  bool optimizeLayouts;
  /// Paths of ptxas and ROCm. If empty, the search of fp8moe-compile applies
  /// (docs/reference/artifacts.md).
  MlirStringRef ptxasPath;
  MlirStringRef rocmPath;
  /// The token count for which the report also gives bytes.
  int64_t tokens;
  /// Options for matmuls of undecided precision, as of fp8moe-select-precision
  /// (docs/users/precision.md). Empty texts and 0 tokens stand for the
  /// defaults.
  MlirStringRef precisionPolicy;
  MlirStringRef precisionRecipe;
  MlirStringRef precisionFor;
  const MlirStringRef *precisionFilters;
  intptr_t numPrecisionFilters;
  int64_t precisionTokens;
  /// The card that the report predicts times for, such as "h100". If empty, the
  /// card in the table of chips.
  MlirStringRef card;
} Fp8moeCompileOptions;

/// Returns the defaults of fp8moe-compile.
MLIR_CAPI_EXPORTED Fp8moeCompileOptions fp8moeCompileOptionsGet(void);

/// Compiles copies of `module` and writes one artifact per target into
/// `folder`/CHIP. Passes the report to `text` for people and to `json` as data
/// (docs/users/python.md). Either callback may be null.
MLIR_CAPI_EXPORTED MlirLogicalResult
fp8moeCompile(MlirModule module, MlirStringRef folder,
              const Fp8moeCompileOptions *options, MlirStringCallback text,
              MlirStringCallback json, void *userData);

/// Compiles a copy of `module` for its only target, up to `stage`, and passes
/// the result to `output`. Stages are those of fp8moe-compile's --emit:
/// "tensor", "kernel", "mlir", "llvm", "asm", "ptx", "cubin", "hsaco" and "so".
MLIR_CAPI_EXPORTED MlirLogicalResult fp8moeEmit(
    MlirModule module, MlirStringRef stage, const Fp8moeCompileOptions *options,
    MlirStringCallback output, void *userData);

/// Makes all decisions on `module` in place: resolves FP8 types, fuses, places
/// layouts and selects tiles. `target` may be empty if the module names its
/// target. On failure the module is in no defined state.
MLIR_CAPI_EXPORTED MlirLogicalResult fp8moeOptimize(MlirModule module,
                                                    MlirStringRef target,
                                                    bool optimizeLayouts);

#ifdef __cplusplus
}
#endif

#endif // FP8MOE_C_COMPILER_H
