//===- FP8MoETiles.td - Tiles of kernels, and choices -------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile is named after the family of kernels that has it. An operation has a
// choice of them, which says everything that the lowering needs to know.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOETILES_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOETILES_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.td"

class FP8MoE_TileAttr<string name, string attrMnemonic>
    : FP8MoE_Attr<name, attrMnemonic,
                  [DeclareAttrInterfaceMethods<FP8MoE_TileAttrInterface>]> {
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Quantizations
//===----------------------------------------------------------------------===//

def FP8MoE_TwoPassTileAttr : FP8MoE_TileAttr<"TwoPassTile", "two_pass"> {
  let summary = "tile of a quantize kernel that reads its input twice";
  let description = [{
    A thread block of `threads` threads takes `columns` columns (positions along the
    dimension that keeps its scales) of a segment at once: it reads them for the largest
    magnitudes, and again to quantize. Takes every layout, address and size.

    Example: `#fp8moe.two_pass<columns = 64, threads = 256>`
  }];
  let parameters = (ins "int64_t":$columns, "int64_t":$threads);
}

def FP8MoE_RegisterResidentTileAttr
    : FP8MoE_TileAttr<"RegisterResidentTile", "register_resident"> {
  let summary = "tile of a quantize kernel that keeps its input in registers";
  let description = [{
    A team of `threads / columns` threads has a column in registers between reducing and
    quantizing it: `chunks` of 16 elements for each thread; rows beyond these are read
    twice. A block does that `rounds` times for columns of one segment, and `blocks`
    blocks should fit a multiprocessor. For rows that are contiguous in input and output.

    Example:
    `#fp8moe.register_resident<columns = 1, threads = 128, chunks = 4, rounds = 1, blocks = 8>`
  }];
  let parameters = (ins "int64_t":$columns, "int64_t":$threads, "int64_t":$chunks,
                        "int64_t":$rounds, "int64_t":$blocks);
}

def FP8MoE_SinglePassOuterTileAttr
    : FP8MoE_TileAttr<"SinglePassOuterTile", "single_pass_outer"> {
  let summary = "tile of a quantize kernel that streams along columns once";
  let description = [{
    A persistent, warp-specialized kernel reads its input once, by TMA, in tiles of 128
    rows by `columns` columns with a ring of `stages`. Blocks exchange largest magnitudes.
    For columns that are contiguous in the input; addresses and pitches must be multiples
    of 16 bytes, so something that takes everything stands behind it.

    Example: `#fp8moe.single_pass_outer<columns = 64, stages = 13>`
  }];
  let parameters = (ins "int64_t":$columns, "int64_t":$stages);
}

def FP8MoE_SinglePassBothAxesTileAttr
    : FP8MoE_TileAttr<"SinglePassBothAxesTile", "single_pass_both_axes"> {
  let summary = "the same, with warps that quantize rows besides";
  let description = [{
    For an operation along two axes: the columns of jagged groups, and whole rows of
    `row_bytes` bytes. `row_stages` rows are in shared memory at once.

    Example:
    `#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 10240, row_stages = 4>`
  }];
  let parameters = (ins "int64_t":$columns, "int64_t":$stages, "int64_t":$row_bytes,
                        "int64_t":$row_stages);
}

def FP8MoE_RescaledBothAxesTileAttr
    : FP8MoE_TileAttr<"RescaledBothAxesTile", "rescaled_both_axes"> {
  let summary = "tile of two kernels, of which one rescales what the other wrote";
  let description = [{
    For an operation along two axes: the columns of groups or experts, and whole rows that
    are contiguous in input and output. Scales are powers of two. Blocks of `threads`
    threads quantize rows, and collect the magnitudes of columns. A multiprocessor has
    `blocks` of them, and a thread holds `chunks` chunks of 16 elements. Columns are then
    made of the bytes of rows: FP8 of another such scale differs in the exponent alone.
    Elements that are subnormal in either form are quantized from the input.

    With `fused`, both kernels compute the input, the result of an operation on rows that
    nobody else reads, instead of loading it.

    Example: `#fp8moe.rescaled_both_axes<threads = 320, chunks = 1, blocks = 3>`
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$chunks, "int64_t":$blocks,
    DefaultValuedParameter<"bool", "false">:$fused);
}

def FP8MoE_PerAxisAttr : FP8MoE_TileAttr<"PerAxis", "per_axis"> {
  let summary = "a choice of kernels for each axis";
  let description = [{
    An operation along several axes becomes kernels for each, in the order of its axes.

    Example:
    ```
    #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                      #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>
    ```
  }];
  let parameters = (ins "::mlir::ArrayAttr":$choices);
  let assemblyFormat = "`<` $choices `>`";
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

def FP8MoE_WgmmaTileAttr : FP8MoE_TileAttr<"WgmmaTile", "wgmma"> {
  let summary = "tile of a matmul kernel with instructions of warpgroups";
  let description = [{
    A thread block computes tiles of `rows` by `columns` of the result, with a ring
    of `stages` blocks of 128 bytes of the contraction. Two warpgroups multiply:

    * `ping_pong`: each takes the next tile; one multiplies while the other writes.
    * `cooperative`: both share a tile, each half of its rows.

    `raster` tiles follow each other along the rows before the columns change.

    The contraction of a dense matmul may be cut into `splits` parts (split-K), for
    results of too few tiles to occupy the chip: blocks compute the f32 products of the
    parts, and a second kernel adds these in their order, so that every run gives the
    same bits.

    Examples:

    - `#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>`
    - `#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = cooperative, splits = 8>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "int64_t":$stages,
    EnumParameter<FP8MoE_WgmmaSchedule>:$schedule,
    DefaultValuedParameter<"int64_t", "4">:$raster,
    DefaultValuedParameter<"int64_t", "1">:$splits);
}

def FP8MoE_MfmaTileAttr : FP8MoE_TileAttr<"MfmaTile", "mfma"> {
  let summary = "tile of a matmul kernel with instructions of waves";
  let description = [{
    A thread block computes one tile of `rows` by `columns` of the result, with two
    stages of both operands in shared memory. Two waves lie along the rows, and one for
    each 64 columns along these.

    Example: `#fp8moe.mfma<rows = 256, columns = 256>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns);
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

def FP8MoE_RangeAttr : FP8MoE_Attr<"Range", "range"> {
  let summary = "values of a quantity";
  let description = [{
    Holds where `above < quantity <= up_to`. The host knows quantities when a program is
    called:

    * `mean_length`: elements that share a scale, on average: the size of the reduced
      dimension, for jagged groups divided by their number, rounded up.
    * `group_bytes`: bytes of the input that have these elements in them: the mean length
      times the bytes across it.

    Bounds are numbers. Those of bytes may be in `percent of l2`: of the L2 cache of the
    card that runs the program, so that one artifact serves several.

    Only ranges of lengths take together what no other kernel takes. Behind one of bytes
    stands something else that takes everything.

    Examples: `#fp8moe.range<mean_length above 256 up_to 4096>`,
    `#fp8moe.range<mean_length up_to 256>`, `#fp8moe.range<mean_length above 4096>`,
    `#fp8moe.range<group_bytes up_to 50 percent of l2>`,
    `#fp8moe.range<group_bytes up_to 31457280>`
  }];
  let parameters = (ins EnumParameter<FP8MoE_Quantity>:$quantity,
    DefaultValuedParameter<"int64_t", "0">:$above,
    DefaultValuedParameter<"int64_t", "::mlir::fp8moe::kUnbounded">:$up_to,
    DefaultValuedParameter<"bool", "false">:$percent_of_l2);
  let builders = [
    AttrBuilder<(ins "::mlir::fp8moe::Quantity":$quantity, "int64_t":$above,
                     "int64_t":$upTo), [{
      return $_get($_ctxt, quantity, above, upTo, /*percent_of_l2=*/false);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FP8MoE_AlternativeAttr : FP8MoE_Attr<"Alternative", "alternative"> {
  let summary = "a tile, and when it is for";
  let description = [{
    Part of a choice, which describes it. `wave` is the predicted time of a wave of tiles
    in nanoseconds, where the choice compares them.

    Examples: `#fp8moe.alternative<#fp8moe.two_pass<columns = 8, threads = 256> for mean_length up_to 256>`,
    `#fp8moe.alternative<#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong> wave 46123>`
  }];
  let parameters = (ins "::mlir::fp8moe::TileAttrInterface":$tile,
    OptionalParameter<"::mlir::fp8moe::RangeAttr">:$range,
    DefaultValuedParameter<"int64_t", "0">:$wave);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FP8MoE_KernelChoiceAttr : FP8MoE_Attr<"KernelChoice", "choice"> {
  let summary = "the kernels of an operation, and which of them runs";
  let description = [{
    Alternatives are tried in order: the first one whose range holds, and whose kernel takes
    the addresses, pitches and counts of the call, does the work. One that takes everything
    stands last, or several of them with ranges of lengths that cover every value.

    With `least_waves`, alternatives are tiles of one family that compute a result in
    waves, one tile for each multiprocessor. The host counts the waves of each from the
    sizes of the call, and the alternative of least waves times `wave` does the work.

    `fp8moe-select-tiles` writes choices, and a human can edit them: that pass and
    `fp8moe-verify-kernels` say what is not legal. Where no alternative takes everything,
    `fp8moe-select-tiles` adds one that does at the end.

    Examples, in operations, which leave out the mnemonic and the brackets around:
    ```
    tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
    tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13> for mean_length above 256,
           #fp8moe.two_pass<columns = 8, threads = 256>]
    tiles least_waves [
        #fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong> wave 46123,
        #fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = ping_pong> wave 66810]
    ```
  }];
  let parameters = (ins "::mlir::ArrayAttr":$alternatives,
    DefaultValuedParameter<"bool", "false">:$least_waves);
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::mlir::fp8moe::AlternativeAttr>":$alternatives,
                     CArg<"bool", "false">:$leastWaves)>,
    AttrBuilder<(ins "::mlir::fp8moe::TileAttrInterface":$tile)>];
  let extraClassDeclaration = [{
    /// The number of alternatives.
    unsigned size() const { return getAlternatives().size(); }
    auto getEntries() const {
      return getAlternatives().getAsRange<::mlir::fp8moe::AlternativeAttr>();
    }
    ::mlir::fp8moe::AlternativeAttr getFirst() const { return *getEntries().begin(); }
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOETILES_TD
