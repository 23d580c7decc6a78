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

/// A context with the dialects of fp8moe and of MLIR, for reading, building,
/// compiling; to be destroyed with mlirContextDestroy.
MLIR_CAPI_EXPORTED MlirContext fp8moeContextCreate(void);

/// Parses text, or bytecode that is trusted (MLIR's reader may crash when it is
/// damaged); `name` stands for the file in locations. A module is put around
/// what is not one. Null after a diagnostic on failure.
MLIR_CAPI_EXPORTED MlirModule fp8moeModuleParse(MlirContext context,
                                                MlirStringRef source,
                                                MlirStringRef name);

/// The target's own FP8 types (`!fp8moe.e4m3`, `!fp8moe.e5m2`).
MLIR_CAPI_EXPORTED MlirType fp8moeE4M3TypeGet(MlirContext context);
MLIR_CAPI_EXPORTED MlirType fp8moeE5M2TypeGet(MlirContext context);

/// The attribute `#fp8moe.MNEMONIC` with these parameters. Null after a
/// diagnostic at `location` when a parameter is missing, unknown, of another
/// type, or refused by the attribute's verifier.
MLIR_CAPI_EXPORTED MlirAttribute fp8moeAttributeGet(MlirLocation location,
                                                    MlirStringRef mnemonic,
                                                    MlirAttribute parameters);

/// The mnemonic of an attribute of the dialect; empty for any other.
MLIR_CAPI_EXPORTED MlirStringRef
fp8moeAttributeGetMnemonic(MlirAttribute attribute);

/// The parameters of an attribute of the dialect; null for any other.
MLIR_CAPI_EXPORTED MlirAttribute
fp8moeAttributeGetParameters(MlirAttribute attribute);

/// The strides in elements that a ranked tensor has in memory, as a
/// DenseI64ArrayAttr; null when its layout is not strided. INT64_MIN stands for
/// a stride that is only known at run time.
MLIR_CAPI_EXPORTED MlirAttribute fp8moeTensorTypeGetStrides(MlirType type);

/// Which results an operation of the dialect infers: true when its result
/// types follow from its operands and attributes.
MLIR_CAPI_EXPORTED bool fp8moeOperationInfersTypes(MlirContext context,
                                                   MlirStringRef name);

/// Whether an operation has the attributes in this dictionary, with which it
/// was created, and may have them: MLIR drops those of a wrong type. After a
/// diagnostic, where it is false, the operation must not be printed.
MLIR_CAPI_EXPORTED bool
fp8moeOperationCheckAttributes(MlirOperation operation,
                               MlirAttribute attributes);

/// Sets an attribute of a valid operation. False after a diagnostic when the
/// operation would not be valid or the attribute has a wrong type; the
/// operation is as before then.
MLIR_CAPI_EXPORTED bool fp8moeOperationSetAttribute(MlirOperation operation,
                                                    MlirStringRef name,
                                                    MlirAttribute value);

/// Removes an attribute of a valid operation. One with a default is reset to
/// it. Returns false with a diagnostic, and changes nothing, where the result
/// would be invalid.
MLIR_CAPI_EXPORTED bool fp8moeOperationRemoveAttribute(MlirOperation operation,
                                                       MlirStringRef name);

#ifdef __cplusplus
}
#endif

#endif // FP8MOE_C_DIALECT_H
