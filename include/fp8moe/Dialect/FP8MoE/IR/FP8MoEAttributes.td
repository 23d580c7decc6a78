//===- FP8MoEAttributes.td - Layouts, targets and tiles ----*- tablegen -*-===//
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

def FP8MoE_QuantizeTileAttr : FP8MoE_Attr<"QuantizeTile", "quantize_tile",
    [DeclareAttrInterfaceMethods<FP8MoE_TileAttrInterface>]> {
  let summary = "tile of a quantize kernel";
  let description = [{
    One thread block of `threads` threads reduces and quantizes `kept` slices (positions
    along the dimension that keeps its scales) at once. `schedule` says how it goes over
    them:

    * `two_pass`, which is not printed: the input is read twice, for the largest magnitudes
      and to quantize;
    * `held`: a team of `threads / kept` threads keeps a slice in registers between the two;
    * `streamed`: a persistent kernel reads the input once, by tensor maps;
    * `columns`: the same of whole columns, all groups of a column together, by bulk copies;
    * `both_axes`: `streamed` for an operation along two axes, with warps that quantize rows
      while their group is streamed.

    Examples, in a quantize operation: `tile <kept = 64, threads = 256>`,
    `tile <kept = 1, threads = 128, schedule = held>`
  }];
  let parameters = (ins "int64_t":$kept, "int64_t":$threads,
    DefaultValuedParameter<"::mlir::fp8moe::TileSchedule",
                           "::mlir::fp8moe::TileSchedule::TwoPass">:$schedule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FP8MoE_GemmTileAttr : FP8MoE_Attr<"GemmTile", "gemm_tile",
    [DeclareAttrInterfaceMethods<FP8MoE_TileAttrInterface>]> {
  let summary = "tile of a matmul kernel";
  let description = [{
    A thread block computes tiles of `rows` by `columns` of the result, with a ring
    of `stages` blocks of 128 bytes of the contraction. Two warpgroups multiply:

    * `ping_pong`: each takes the next tile; one multiplies while the other writes.
    * `independent`: each has tiles and a ring of its own.
    * `cooperative`: both share a tile, each half of its rows.

    `raster` tiles follow each other along the rows before the columns change.

    Example, in a grouped matmul:
    `tile <rows = 128, columns = 128, stages = 6, schedule = ping_pong>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "int64_t":$stages,
    EnumParameter<FP8MoE_GemmSchedule>:$schedule,
    DefaultValuedParameter<"int64_t", "8">:$raster);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEATTRIBUTES_TD
