//===- FP8MoEAttributes.td - Layouts and targets -----------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_TD

include "mlir/IR/AttrTypeBase.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEEnums.td"
include "fp8moe/Dialect/FP8MoE/IR/FP8MoEInterfaces.td"

class FP8MoE_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FP8MoE_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def FP8MoE_GroupPaddingAttr : FP8MoE_Attr<"GroupPadding", "groups"> {
  let summary = "padded jagged groups";
  let description = [{
    Each jagged group along `dim` is padded with zeros to a multiple of `pad`: group g
    starts at `sum over earlier groups of round_up(length, pad)`, and the extent along
    `dim` is `round_up(M + E * (pad - 1), pad)` for M rows in E groups. Starts are always
    derived from the offsets, never stored.

    Example: `groups<dim = 0, pad = 128>` inside a layout.
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$pad);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FP8MoE_StridedEncodingAttr : FP8MoE_Attr<"StridedEncoding", "strided",
    [DeclareAttrInterfaceMethods<FP8MoE_LayoutAttrInterface>,
     DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "one stride per dimension";
  let description = [{
    `order` lists the dimensions from outermost to innermost in memory: `[0, 1]` is
    row-major, `[1, 0]` column-major, `[0, 2, 1]` per-expert column-major.

    `strides` (in elements, per dimension, `?` when known only at run time) replaces the
    dense strides that follow from shape and order. Strides must not decrease from inner
    to outer dimensions, and must not let elements overlap. The stride of a dimension of
    size 1 is never used. Operations write results with known or dense strides only.

    `align`, a power of two in bytes, promises that the base address and every pitch
    (stride of a dimension other than the innermost) are multiples of it. Nothing beyond
    the size of an element is assumed without it.

    `groups` says that jagged groups are padded; the size of that dimension is then a
    multiple of `pad`.

    Examples:
    ```
    #fp8moe.strided<[1, 0]>
    #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
    #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
    ```
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$order,
    OptionalArrayRefParameter<"int64_t">:$strides,
    DefaultValuedParameter<"int64_t", "0">:$align,
    OptionalParameter<"::mlir::fp8moe::GroupPaddingAttr">:$groups);
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<int64_t>":$order), [{
      return $_get($_ctxt, order, ::llvm::ArrayRef<int64_t>(), 0, GroupPaddingAttr());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FP8MoE_ScaleBlockedEncodingAttr
    : FP8MoE_Attr<"ScaleBlockedEncoding", "scale_blocked",
    [DeclareAttrInterfaceMethods<FP8MoE_LayoutAttrInterface>,
     DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "block scales in the tiles that tensor cores read";
  let description = [{
    For tensors of one-byte block scales `[rows, cols]` or `[experts, rows, cols]`: tiles of
    128 rows by 4 columns take 512 bytes; element (r, c) of a tile is byte
    `(r % 32) * 16 + (r / 32) * 4 + c`; tiles lie row-block-major; each expert by itself.
    Rows are padded to 128 and columns to 4 with zero bytes.

    With `groups` the rows (`dim = 0, pad = 128`) or the columns (`dim = 1, pad = 4`) are
    jagged, and each group starts at a multiple of `pad`; the extent of that dimension is
    the padded one.

    Examples: `#fp8moe.scale_blocked<128x4>`,
    `#fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols,
    OptionalParameter<"::mlir::fp8moe::GroupPaddingAttr">:$groups);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FP8MoE_TargetAttr : FP8MoE_Attr<"Target", "target"> {
  let summary = "the chip to compile for";
  let description = [{
    Names one of the known chips (`lib/Target`), whose limits and figures every decision
    reads. Unknown chips are refused.

    Example: `module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {}`
  }];
  let parameters = (ins StringRefParameter<"chip">:$chip);
  let assemblyFormat = "`<` $chip `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Limits and figures of the chip.
    const TargetInfo &getInfo() const;
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_TD
