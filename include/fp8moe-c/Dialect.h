//===- Dialect.h - C API of the fp8moe dialect --------------------*- C -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The fp8moe dialect on top of MLIR's C API (mlir-c/IR.h). Operations are made
// with mlirOperationCreate; this header has what C cannot say otherwise: a
// context that knows the dialects, element types, attributes, and changes of an
// operation's attributes that are checked.
//
// Attributes are generated from ODS: each is named by its mnemonic and given by
// its parameters, in a dictionary whose keys and values are
//
//   parameter of type      key: its name in ODS; value
//   integer                IntegerAttr of type i64
//   array of integers      DenseI64ArrayAttr
//   string                 StringAttr
//   enum                   StringAttr, the keyword
//   attribute              the attribute
//
// A parameter with a default may be left out. The same dictionary comes back
// from fp8moeAttributeGetParameters.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_C_DIALECT_H
#define FP8MOE_C_DIALECT_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Creates a context with the dialects of fp8moe and of MLIR, to read, build
/// and compile modules. Destroy it with mlirContextDestroy.
MLIR_CAPI_EXPORTED MlirContext fp8moeContextCreate(void);

/// Parses text or trusted bytecode (MLIR's reader may crash on damaged
/// bytecode). `name` is the file name in locations. Other top-level operations
/// are wrapped in a module. Returns null after a diagnostic on failure.
MLIR_CAPI_EXPORTED MlirModule fp8moeModuleParse(MlirContext context,
                                                MlirStringRef source,
                                                MlirStringRef name);

/// Returns the target-neutral FP8 types (`!fp8moe.e4m3`, `!fp8moe.e5m2`).
MLIR_CAPI_EXPORTED MlirType fp8moeE4M3TypeGet(MlirContext context);
MLIR_CAPI_EXPORTED MlirType fp8moeE5M2TypeGet(MlirContext context);

/// Returns the attribute `#fp8moe.MNEMONIC` with these parameters. Returns null
/// after a diagnostic at `location` if a parameter is missing, unknown or of
/// another type, or if the attribute's verifier fails.
MLIR_CAPI_EXPORTED MlirAttribute fp8moeAttributeGet(MlirLocation location,
                                                    MlirStringRef mnemonic,
                                                    MlirAttribute parameters);

/// Returns the mnemonic of an attribute of the dialect; empty for any other.
MLIR_CAPI_EXPORTED MlirStringRef
fp8moeAttributeGetMnemonic(MlirAttribute attribute);

/// Returns the parameters of an attribute of the dialect; null for any other.
MLIR_CAPI_EXPORTED MlirAttribute
fp8moeAttributeGetParameters(MlirAttribute attribute);

/// Returns the strides in elements of a ranked tensor in memory, as a
/// DenseI64ArrayAttr. Returns null if its layout is not strided. INT64_MIN
/// stands for a stride that is only known at run time.
MLIR_CAPI_EXPORTED MlirAttribute fp8moeTensorTypeGetStrides(MlirType type);

/// Whether the result types of an operation of the dialect follow from its
/// operands and attributes.
MLIR_CAPI_EXPORTED bool fp8moeOperationInfersTypes(MlirContext context,
                                                   MlirStringRef name);

/// Whether an operation has all attributes of the dictionary that it was
/// created with, and may have them. MLIR drops attributes of a wrong type. If
/// false, a diagnostic says why, and the operation must not be printed.
MLIR_CAPI_EXPORTED bool
fp8moeOperationCheckAttributes(MlirOperation operation,
                               MlirAttribute attributes);

/// Sets an attribute of a valid operation. Returns false with a diagnostic, and
/// changes nothing, if the attribute has a wrong type or the operation would be
/// invalid.
MLIR_CAPI_EXPORTED bool fp8moeOperationSetAttribute(MlirOperation operation,
                                                    MlirStringRef name,
                                                    MlirAttribute value);

/// Removes an attribute of a valid operation, or resets it to its default.
/// Returns false with a diagnostic, and changes nothing, if the operation would
/// be invalid.
MLIR_CAPI_EXPORTED bool fp8moeOperationRemoveAttribute(MlirOperation operation,
                                                       MlirStringRef name);

#ifdef __cplusplus
}
#endif

#endif // FP8MOE_C_DIALECT_H
