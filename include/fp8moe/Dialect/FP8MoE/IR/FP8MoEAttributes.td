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
    starts at `sum over earlier groups of round_up(length, pad)`. The extent along
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

    `align`, a power of two in bytes, promises that the base address and every pitch are
    multiples of it. A pitch is the stride of a dimension other than the innermost. Nothing beyond
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
    For tensors of one-byte block scales `[rows, cols]` or `[experts, rows, cols]`. Tiles of
    128 rows by 4 columns take 512 bytes: element (r, c) of a tile is byte
    `(r % 32) * 16 + (r / 32) * 4 + c`. Tiles lie row-block-major, each expert by itself.
    Rows are padded to 128 and columns to 4 with zero bytes.

    With `groups` the rows (`dim = 0, pad = 128`) or the columns (`dim = 1, pad = 4`) are
    jagged. Each group starts at a multiple of `pad`. The extent of that dimension is
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

def FP8MoE_PrecisionAttr : FP8MoE_Attr<"Precision", "precision"> {
  let summary = "whether a matmul is worth FP8";
  let description = [{
    Belongs to a matmul of the model that `name` (the fully qualified name of its module)
    and `use` tell: `forward`, `dgrad` (the gradient of the input) or `wgrad` (that of the
    weights). `undecided` is for `fp8moe-select-precision` to replace by a decision, `bf16`
    or `fp8`; a decision can be written and edited by hand. `fp8moe-apply-precision` makes
    a bf16 matmul with the decision `fp8` a matmul of operands that it quantizes by
    `recipe`; the attribute stays. An undecided matmul is decided by a `recipe` of its own,
    other than `rowwise`, or by that of the pass.

    `bf16_ns` and `fp8_ns` are the predicted times that were compared, in nanoseconds: the
    matmul, and its part of the copies or quantizations of operands. 0: none was predicted.
    `reason` is for people.

    Examples, in a matmul: `precision <undecided, "layers.0.attention.wk", forward>`,
    `precision <fp8, "layers.0.feed_forward.w1", wgrad, reason = "by hand">`
  }];
  let parameters = (ins
    EnumParameter<FP8MoE_PrecisionChoice>:$choice,
    StringRefParameter<"name of the module">:$name,
    EnumParameter<FP8MoE_MatmulUse>:$use,
    DefaultValuedParameter<"::mlir::fp8moe::PrecisionRecipe",
                           "::mlir::fp8moe::PrecisionRecipe::Rowwise">:$recipe,
    DefaultValuedParameter<"int64_t", "0">:$bf16_ns,
    DefaultValuedParameter<"int64_t", "0">:$fp8_ns,
    StringRefParameter<"for people", [{""}]>:$reason);
  let builders = [
    AttrBuilder<(ins "::mlir::fp8moe::PrecisionChoice":$choice,
                     "::llvm::StringRef":$name, "::mlir::fp8moe::MatmulUse":$use), [{
      return $_get($_ctxt, choice, name, use, PrecisionRecipe::Rowwise, 0, 0, "");
    }]>];
  let assemblyFormat = [{
    `<` $choice `,` $name `,` $use
    (`,` struct($recipe, $bf16_ns, $fp8_ns, $reason)^)? `>`
  }];
  let genVerifyDecl = 1;
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_TD
